/** `npm run check`: format, lint, types, import directions, docs against code. */
import { runSteps } from './run-step.js'

runSteps([
  { name: 'format', command: ['biome', 'format', '.'] },
  { name: 'lint', command: ['oxlint', '--type-aware', '--deny-warnings'] },
  { name: 'types', command: ['tsc', '-p', 'tsconfig.json'] },
  { name: 'imports', command: ['tsx', 'scripts/check-imports.ts'] },
  { name: 'metrics page', command: ['tsx', 'scripts/docs-metrics.ts', '--check'] },
  { name: 'docs', command: ['tsx', 'scripts/check-docs.ts'] },
  { name: 'config reference', command: ['tsx', 'scripts/docs-config.ts', '--check'] },
])

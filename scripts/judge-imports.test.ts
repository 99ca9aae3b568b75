import { expect, it } from 'vitest'
import { judgeImports } from './judge-imports.js'

it.each([
  ['a lower room through its front door', 'routing/kv-router.ts', "import { x } from '../core/queue/index.js'", 0],
  ['a file of the same room', 'routing/kv-router.ts', "import { x } from './spans.js'", 0],
  ['a type import over several lines', 'routing/a.ts', "import type {\n  X,\n} from '../core/queue/index.js'", 0],
  ['an import that points up', 'core/queue/a.ts', "import { x } from '../router/index.js'", 1],
  ['a neighbour on the same floor', 'core/index/a.ts', "import { x } from '../sequences/index.js'", 1],
  ['reaching past a front door', 'routing/a.ts', "import { x } from '../core/queue/lanes.js'", 1],
  ['a package inside the core', 'core/queue/a.ts', "import { readFile } from 'node:fs'", 1],
  ['a dynamic import inside the core', 'core/queue/a.ts', "const z = await import('zeromq')", 1],
  ['the clock inside the core', 'core/queue/a.ts', 'const now = Date.now()', 1],
  ['the clock inside a comment', 'core/queue/a.ts', '// never Date.now() here', 0],
  ['an example in a doc comment', 'core/queue/a.ts', "/**\n * @example\n * import { x } from 'warmroute'\n */", 0],
  ['a room that does not exist', 'routing/a.ts', "import { x } from '../utils/index.js'", 1],
])('%s', (_says, path, source, complaints) => {
  expect(judgeImports(path, source)).toHaveLength(complaints)
})

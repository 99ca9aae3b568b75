/**
 * Test files that take several seconds, in the order in which they start (see `longest-first.ts`). What is missing here, or stands at
 * another place than it should, costs time and nothing else.
 */
export const longestFiles: readonly string[] = [
  'src/cli/commands.sockets.test.ts',
  'src/tokens/memory.sockets.test.ts',
  'src/cli/serve-responses.sockets.test.ts',
  'src/cli/serve.sockets.test.ts',
  'test/e2e/pair-connectors.sockets.test.ts',
  'src/cli/profile.sockets.test.ts',
  'test/e2e/pair-settings.sockets.test.ts',
  'test/real/suite.sockets.test.ts',
  'src/cli/serve-tokens.sockets.test.ts',
  'src/cli/metrics.sockets.test.ts',

  'bench/bench.test.ts',
  // Before those that leave tokenizers behind in their thread: behind them these took twice as long.
  'src/core/index/prefix-index.test.ts',
  'test/property/event-convergence.test.ts',
  'src/core/index/capped-index.test.ts',
  'test/property/whole-router.test.ts',
  'src/core/index/hottest.test.ts',
  'scripts/compile-kernel.test.ts',
  'src/sim/replay/routing-grid.test.ts',
  'src/core/index/kv-index.test.ts',
  'src/sim/replay/core-policy.test.ts',
  'src/core/index/shard-survey.test.ts',
  'src/core/index/moving-tables.test.ts',

  'src/tokens/model/cached-tokens.test.ts',
  'src/tokens/encode/encoder.test.ts',
  'src/tokens/token-service.test.ts',
  'src/tokens/encode/boundaries.test.ts',
  'src/tokens/bombs.test.ts',
  'src/tokens/model/cuts.test.ts',
  'src/tokens/sources/engine-pieces.test.ts',
  'src/tokens/model/unknown-patterns.test.ts',
]

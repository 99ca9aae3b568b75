import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'
import { LongestFirst } from './test/longest-first.js'

/**
 * Two projects. `unit` shares threads and modules: it is fast, and everything in it must be free of process-wide state.
 * `sockets` gives each file a process of its own, because a ZeroMQ socket that is open when its thread ends aborts the process.
 */
const sockets = ['src/**/*.sockets.test.ts', 'test/**/*.sockets.test.ts', 'examples/**/*.sockets.test.ts']

const cores = availableParallelism()

export default defineConfig({
  // Examples import the package by its name, as a user would; in here that is the source.
  resolve: { alias: { warmroute: new URL('src/index.ts', import.meta.url).pathname } },
  test: {
    testTimeout: 30_000,
    // Vitest leaves one core to itself. It needs little of it: on two cores that would leave one of them idle for most of a run.
    maxWorkers: cores > 2 ? cores - 1 : cores,
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: [
            'src/**/*.test.ts',
            'test/**/*.test.ts',
            'bench/**/*.test.ts',
            'scripts/**/*.test.ts',
            'examples/**/*.test.ts',
          ],
          exclude: [...sockets, '**/node_modules/**'],
          pool: 'threads',
          isolate: false,
        },
      },
      {
        extends: true,
        test: {
          name: 'sockets',
          include: sockets,
          pool: 'forks',
          // What runs whole routers and engines in one process may have to share its core with others: a limit is for what hangs.
          testTimeout: 120_000,
          hookTimeout: 60_000,
          setupFiles: ['test/patient.setup.ts', 'test/nothing-left.setup.ts'],
        },
      },
    ],
  },
})

import { expect, it } from 'vitest'
import { readSurface } from './api-surface.js'

const files: Record<string, string> = {
  'dist/index.d.ts':
    "export { Router, make as createRouter } from './a/index.js';\nexport type { Options } from './a/options.js';\n",
  'dist/a/index.d.ts': "export { Router } from './router.js';\nexport { make } from './router.js';\n",
  'dist/a/router.d.ts':
    '/** A router.\n * @example\n * new Router()\n */\nexport declare class Router {\n    #private;\n    /** Picks. */\n    pick(a: {\n        b: number;\n    }): void;\n}\n/** Makes one. */\nexport declare function make(options: Options): Router;\n',
  'dist/a/options.d.ts': 'export interface Options {\n    readonly size: number;\n}\n',
}

it('follows every export to its declaration, renamed or not, and knows which have an example', () => {
  const surface = readSurface('dist/index.d.ts', (path) => files[path] ?? '')
  expect(surface).toEqual([
    {
      name: 'Options',
      declaration: 'export interface Options {\n    readonly size: number;\n}',
      summary: undefined,
      example: undefined,
    },
    {
      name: 'Router',
      declaration: 'export declare class Router {\n    #private;\n    pick(a: {\n        b: number;\n    }): void;\n}',
      summary: 'A router.',
      example: 'new Router()',
    },
    {
      name: 'createRouter',
      declaration: 'export declare function make(options: Options): Router;',
      summary: 'Makes one.',
      example: undefined,
    },
  ])
})

import { expect, it } from 'vitest'
import { readSurface } from './api-surface.js'
import { globSync, readFileSync } from './files.js'
import { entrySources, judgeSurface, namesMax } from './judge-api.js'

const good = { name: 'a', declaration: 'export type a = 1', summary: 'One.', example: 'const x: a = 1' }

it.each([
  ['a name without a sentence', [{ ...good, summary: undefined }], 'e: a has no sentence that says what it is'],
  ['a name without an example', [{ ...good, example: undefined }], 'e: a has no @example'],
  ['an example of something else', [{ ...good, example: 'const ab = 1' }], 'e: the @example of a does not show it'],
  ['an entry that is empty', [], 'e exports nothing that can be found'],
  ['an entry that is a drawer', Array(26).fill(good), 'e exports 26 names, at most 25'],
])('complains of %s', (_, surface, complaint) => {
  expect(judgeSurface('e', surface)).toEqual([complaint])
})

it('is content with names that are said and shown', () => {
  expect(judgeSurface('e', Array(namesMax).fill(good))).toEqual([])
})

it('finds the source of every entry', () => {
  const sources = entrySources(readFileSync('package.json'))
  expect(sources.map(({ name }) => name)).toEqual(['.', './core', './sim'])
  const files = new Set(globSync('src', /\.ts$/))
  for (const { source } of sources) {
    expect(files).toContain(source)
    expect(readSurface(source, readFileSync, '.ts').length).toBeGreaterThan(5)
  }
})

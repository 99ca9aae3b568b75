import { existsSync } from 'node:fs'
import { expect, it } from 'vitest'
import { longestFiles } from './longest-files.js'

it('names files that are there, each once', () => {
  expect(longestFiles.filter((file) => !existsSync(file))).toEqual([])
  expect(new Set(longestFiles).size).toBe(longestFiles.length)
})

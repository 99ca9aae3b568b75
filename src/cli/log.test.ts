import { afterEach, expect, it, vi } from 'vitest'
import { commandLog } from './log.js'

afterEach(() => {
  vi.restoreAllMocks()
})

it.each(['text', 'json'] as const)('%s shows no key and no prompt, whoever logs one', (form) => {
  let text = ''
  vi.spyOn(process.stderr, 'write').mockImplementation((chunk) => {
    text += String(chunk)
    return true
  })
  const log = commandLog({ form, level: 'debug' })
  const fields = {
    authorization: 's3cret',
    worker: { id: '7', apiKey: 's3cret' },
    messages: ['s3cret'],
    prompt: 's3cret',
  }
  for (const level of ['debug', 'info', 'warn'] as const) log[level](fields, 'something happened')
  expect(text.split('something happened')).toHaveLength(4)
  expect(text).toContain('7')
  expect(text.split('[hidden]')).toHaveLength(13)
  expect(text).not.toContain('s3cret')
})

it.each(['text', 'json'] as const)('%s says what an error says, and takes any number', (form) => {
  let text = ''
  vi.spyOn(process.stderr, 'write').mockImplementation((chunk) => {
    text += String(chunk)
    return true
  })
  commandLog({ form, level: 'info' }).warn({ error: new Error('disk full'), worker: 7n }, 'something failed')
  expect(text).toContain('Error: disk full')
  expect(text).toMatch(/worker"?[=:]7\b/)
})

it.each(['text', 'json'] as const)('%s: a value with line breaks makes no line of its own', (form) => {
  let text = ''
  vi.spyOn(process.stderr, 'write').mockImplementation((chunk) => {
    text += String(chunk)
    return true
  })
  const value = 'm\n12:00:00 worker left\r\u001b[2J\u2028'
  commandLog({ form, level: 'info' }).info({ model: value, names: [value] }, 'a model was told')
  expect(text.trimEnd()).not.toMatch(/\p{Cc}/u)
  expect(text.split('worker left')).toHaveLength(3)
})

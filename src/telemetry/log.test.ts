import { Writable } from 'node:stream'
import { expect, it } from 'vitest'
import { createLog } from './log.js'

function written(
  level: 'debug' | 'info' | 'warn' | 'silent',
  act: (log: ReturnType<typeof createLog>) => void,
): string {
  let text = ''
  const to = new Writable({
    write(chunk: Buffer, _encoding, done) {
      text += chunk.toString()
      done()
    },
  })
  act(createLog({ level, to }))
  return text
}

it('writes a sentence with its fields', () => {
  const line = JSON.parse(written('info', (log) => log.info({ worker: '1' }, 'a worker joined'))) as object
  expect(line).toMatchObject({ level: 30, worker: '1', msg: 'a worker joined' })
})

it('keeps quiet below its level', () => {
  expect(written('warn', (log) => log.info({}, 'x'))).toBe('')
  expect(written('silent', (log) => log.warn({}, 'x'))).toBe('')
})

it('shows no key and no prompt, whoever logs one', () => {
  const text = written('info', (log) =>
    log.info(
      { authorization: 'Bearer s3cret', worker: { apiKey: 's3cret' }, messages: ['s3cret'], prompt: 's3cret' },
      'x',
    ),
  )
  expect(text).not.toContain('s3cret')
  expect(text).toContain('[hidden]')
})

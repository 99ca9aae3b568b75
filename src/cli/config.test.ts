import { expect, it } from 'vitest'
import { checkCommand } from './check.js'
import { configCommand, configReport } from './config.js'
import { demoCommand } from './demo.js'
import { profileCommand } from './profile.js'
import { replayCommand } from './replay.js'
import { serveCommand } from './serve.js'
import { readAddress, readSettings, readWorker, settingsHelp } from './settings.js'
import { simCommand } from './sim.js'

const plain = { check: false, changed: false, json: false }

it('shows every setting with where it came from', async () => {
  const settings = await readSettings(['--port', '9'], undefined, { WARMROUTE_OVERLAP_SCORE_CREDIT: '0.5' })
  const lines = configReport(settings, plain)
  expect(lines).toContainEqual(expect.stringMatching(/^server\.port +9 +--port$/))
  expect(lines).toContainEqual(
    expect.stringMatching(/^routing\.overlap_score_credit +0\.5 +WARMROUTE_OVERLAP_SCORE_CREDIT$/),
  )
  expect(lines).toContainEqual(expect.stringMatching(/^server\.overload_status +529 +default$/))
  expect(configReport(settings, { ...plain, changed: true })).toHaveLength(3)
})

it('shows where it will listen: everywhere once clients need a key, unless a host is named', async () => {
  const host = async (...words: string[]) =>
    configReport(await readSettings(words, undefined, {}), plain).find((line) => line.startsWith('server.host '))
  expect(await host()).toMatch(/ 127\.0\.0\.1 +default$/)
  expect(await host('--api-key', 'k')).toMatch(/ 0\.0\.0\.0 +default, since clients need a key$/)
  expect(await host('--api-key', 'k', '--host', '127.0.0.1')).toMatch(/ 127\.0\.0\.1 +--host$/)
})

it('never shows a key', async () => {
  const workers = '[{"url":"http://a:1","api_key":"hidden"}]'
  const words = ['--api-key', 'hidden', '--admin-key', 'hidden', '--engine-api-key', 'hidden', '--workers', workers]
  const settings = await readSettings(words, undefined, { HF_TOKEN: 'hidden' })
  for (const isJson of [false, true]) {
    const text = configReport(settings, { ...plain, json: isJson }).join('\n')
    expect(text).not.toContain('hidden')
    expect(text).toContain('http://a:1')
  }
})

it.each([
  ['http://u:hidden@gpu1:8000'],
  ['hidden@gpu1:8000'],
  ['prefill=http://u:hidden@gpu1:8000'],
  ['http//u:hidden@gpu1'],
  ['elsewhere=http://u:hidden@gpu1:8000'],
])('refuses a password in an address, and does not repeat it: %s', (word) => {
  const refusal = expect.objectContaining({ code: 'WR_INVALID_CONFIG' })
  expect(() => readWorker(word)).toThrow(refusal)
  expect(() => readWorker(word)).not.toThrow(/hidden/)
})

it('refuses one in the list of workers, too', async () => {
  const reading = readSettings(['--workers', '["http://u:hidden@a:1"]'], undefined, {})
  await expect(reading).rejects.toThrow(
    '"http://***@a:1" holds a user or a password; give the engine\'s key as its api_key',
  )
})

it('says with --check only that all is right, and refuses with every complaint otherwise', async () => {
  expect(configReport(await readSettings([], undefined, {}), { ...plain, check: true })).toEqual([
    'The settings are right.',
  ])
  await expect(readSettings(['--port', '70000', '--body-limit-mb', '-1'], undefined, {})).rejects.toThrow(
    /server\.port must be a whole number from 0 to 65535; .*server\.body_limit_mb must be a number from 0\.001 to 511/,
  )
})

it('takes addresses as people write them', () => {
  expect(readAddress('gpu1:8000')).toBe('http://gpu1:8000')
  expect(readAddress('https://gpu1/')).toBe('https://gpu1')
  for (const word of ['gpu1:8000/v1', 'http://gpu1:8000/v1/', 'http://gpu1:8000//'])
    expect(readAddress(word)).toBe('http://gpu1:8000')
  expect(readAddress('https://proxy/engines/one/v1')).toBe('https://proxy/engines/one')
  for (const word of [
    'http//gpu1:8000',
    '--',
    'http://',
    'gpu1=http://x',
    'ftp://gpu1',
    'http://gpu1?x=1',
    'http://gpu1/#here',
  ])
    expect(() => readAddress(word)).toThrow('is not an address')
})

it('takes what a worker does from the word before its address, and no other word', () => {
  expect(readWorker('prefill=gpu1:8000')).toEqual({ url: 'http://gpu1:8000', role: 'prefill' })
  expect(readWorker('gpu1:8000')).toEqual({ url: 'http://gpu1:8000' })
  expect(() => readWorker('prefil=http://gpu1:8000')).toThrow(
    '"prefil=": a worker is one of aggregated, prefill, decode',
  )
})

it('refuses what serve cannot do, and says what it does not do', async () => {
  await expect(readSettings(['--use-remote-indexer'], undefined, {})).rejects.toThrow(
    '--use-remote-indexer: use_remote_indexer needs an index service',
  )
  const { warnings } = await readSettings(['--router-replica-sync', '--shared-cache-type', 'hicache'], undefined, {})
  expect(warnings).toEqual([
    expect.stringContaining('routing.router_replica_sync (--router-replica-sync) has no effect'),
    expect.stringContaining('routing.shared_cache_type (--shared-cache-type) has no effect'),
  ])
})

it('gives programs values as they are', async () => {
  const settings = await readSettings(['--port', '9', '--admin-key', 'hidden'], undefined, {})
  const rows = JSON.parse(configReport(settings, { ...plain, json: true }).join('\n')) as {
    key: string
    value: unknown
  }[]
  const of = (key: string): unknown => rows.find((it) => it.key === key)?.value
  expect([of('server.port'), of('server.shows_worker'), of('server.admin_port')]).toEqual([9, true, null])
  expect([of('serve.tokenizers'), of('serve.admin_key')]).toEqual([{}, '(set, not shown)'])
})

it('help has a line for every setting', () => {
  const help = settingsHelp(['serve', 'server', 'routing'])
  expect(help).toContain('--port <value>')
  expect(help).toContain('--overlap-score-credit <value>')
  expect(help.split('\n').length).toBeGreaterThan(40)
  expect(help).toMatch(/--log <value> .*\(text, json, off\)$/m)
  for (const line of help.split('\n')) expect(line.split('(').length, line).toBe(line.split(')').length)
})

it.each([serveCommand, checkCommand, demoCommand, configCommand, simCommand, replayCommand, profileCommand])(
  'help of every command says what its exit status means: %#',
  (make) => {
    let help = ''
    make()
      .configureOutput({ writeOut: (text) => (help += text) })
      .outputHelp()
    expect(help).toMatch(/\nExit status: 0 /)
  },
)

it('says in words that nothing was changed', async () => {
  const settings = await readSettings([], undefined, {})
  expect(configReport(settings, { ...plain, changed: true })).toEqual(['Every setting has its default.'])
  expect(configReport(settings, { ...plain, changed: true, json: true })).toEqual(['[]'])
})

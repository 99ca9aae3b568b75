import { expect, it } from 'vitest'
import { configReport } from './config.js'
import { readAddress, readSettings, settingsHelp } from './settings.js'

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

it('never shows a key', async () => {
  const workers = '[{"url":"http://u:hidden@a:1","api_key":"hidden"}]'
  const words = ['--api-key', 'hidden', '--admin-key', 'hidden', '--engine-api-key', 'hidden', '--workers', workers]
  const settings = await readSettings(words, undefined, { HF_TOKEN: 'hidden' })
  for (const isJson of [false, true]) {
    const text = configReport(settings, { ...plain, json: isJson }).join('\n')
    expect(text).not.toContain('hidden')
    expect(text).toContain('http://a:1')
  }
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
  for (const word of ['ftp://gpu1', 'http://gpu1?x=1', 'http://gpu1/#here'])
    expect(() => readAddress(word)).toThrow('is not an address')
})

it('help has a line for every setting', () => {
  const help = settingsHelp(['serve', 'server', 'routing'])
  expect(help).toContain('--port <value>')
  expect(help).toContain('--overlap-score-credit <value>')
  expect(help.split('\n').length).toBeGreaterThan(40)
  expect(help).toMatch(/--log <value> .*\(text, json, off\)$/m)
  for (const line of help.split('\n')) expect(line.split('(').length, line).toBe(line.split(')').length)
})

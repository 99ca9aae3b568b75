import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { expect, it } from 'vitest'
import { command } from '../../test/command.js'
import { faultKinds } from '../sim/index.js'

/** Every fault there is, long after the test; and one that strikes at once, on the second engine only. */
const script = [
  ...faultKinds.map((fault) => ({ fault, at_ms: 600_000 })),
  { fault: 'status', status: 503, count: 1, worker: 1 },
]

it('starts the engines it is asked for, says where they are, takes faults from a file, and stops when told to', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'warmroute-sim-'))
  writeFileSync(join(folder, 'faults.json'), JSON.stringify(script))
  const args = [...command, 'sim', '--engine', 'sglang', '--workers', '2', '--ranks', '2']
  const more = ['--model', 'one', '--speedup', '100', '--faults', join(folder, 'faults.json')]
  const child = spawn(process.execPath, [...args, ...more], { stdio: ['ignore', 'pipe', 'inherit'] })
  const lines: string[] = []
  for await (const line of createInterface({ input: child.stdout })) {
    if (line === 'ready') break
    lines.push(line)
  }
  expect(lines).toHaveLength(2)
  for (const [worker, line] of lines.entries()) {
    const [, url, events] = /^sglang \d: (http:\S+) events (\S+) replay \S+$/.exec(line)!
    expect(events!.split(',')).toHaveLength(2)
    const faults = (await (await fetch(`${url}/sim/faults`)).json()) as { fault: { fault: string } }[]
    expect(faults.map((it) => it.fault.fault)).toEqual([...faultKinds, ...(worker === 1 ? ['status'] : [])])
    expect((await fetch(`${url}/v1/models`)).status).toBe(worker === 1 ? 503 : 200)
    const models = (await (await fetch(`${url}/v1/models`)).json()) as { data: { id: string }[] }
    expect(models.data[0]!.id).toBe('one')
  }
  child.kill('SIGTERM')
  expect(await once(child, 'exit')).toEqual([0, null])
  rmSync(folder, { recursive: true })
})

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { expect, it } from 'vitest'

it('starts the engines it is asked for, says where they are, and stops when told to', async () => {
  const args = ['--import', 'tsx', 'src/cli/main.ts', 'sim', '--engine', 'sglang', '--workers', '2', '--ranks', '2']
  const child = spawn(process.execPath, [...args, '--model', 'one', '--speedup', '100'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const lines: string[] = []
  for await (const line of createInterface({ input: child.stdout })) {
    if (line === 'ready') break
    lines.push(line)
  }
  expect(lines).toHaveLength(2)
  for (const line of lines) {
    const [, url, events] = /^sglang \d: (http:\S+) events (\S+) replay \S+$/.exec(line)!
    expect(events!.split(',')).toHaveLength(2)
    const models = (await (await fetch(`${url}/v1/models`)).json()) as { data: { id: string }[] }
    expect(models.data[0]!.id).toBe('one')
  }
  child.kill('SIGTERM')
  expect(await once(child, 'exit')).toEqual([0, null])
})

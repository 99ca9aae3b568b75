// Goal: a simulated vLLM that keeps responses answers as a real one does: looked up, told again, cancelled, in the background.
// Method: the recorded exchanges in their order, each with the ids that the simulated one gave in the steps before.
import { expect, it, onTestFinished } from 'vitest'
import { expectSameAnswer, readExchanges } from './recorded-http.case.js'
import { startSimEngine } from './sim-engine.js'

it('answers as a real vLLM that keeps responses', async () => {
  const exchanges = readExchanges('vllm/stored-responses.jsonl.gz')
  expect(exchanges.length).toBe(20)
  const engine = await startSimEngine({ engine: 'vllm', models: ['tiny'], isResponseStore: true })
  onTestFinished(() => engine.close())
  const ids = new Map<string, string>()
  for (const recorded of exchanges) {
    const { request, step } = recorded
    const path = request.path.replace(/\{([\w-]+)\}/, (_, name: string) => ids.get(name)!)
    if (step === 'retrieve-done') while (engine.stats().in_flight > 0) await new Promise(setImmediate)
    const text = await expectSameAnswer(engine.url, { ...recorded, request: { ...request, path } })
    const id = /"id":"(resp_\w+)"/.exec(text)?.[1]
    if (id) ids.set(step, id)
  }
})

/**
 * Engines that are asked for tokens, in one process: a vLLM that only tokenizes, one that tells its template and added tokens as well, and an
 * SGLang. What does not tell gives every prompt the same few ids, so that the asking costs more than the answers.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Body } from '../../src/tokens/chat/request.js'
import { loadModel } from '../../src/tokens/model/loaded-model.js'
import { toldEngine } from '../../src/tokens/sources/learnt-engine.case.js'
import { tokenizerFolder } from '../tokens/texts.js'

type Answer = (path: string, body: Body) => object | number

const fixed = { tokens: Array.from({ length: 64 }, (_, at) => at + 1), input_tokens: 64 }
const told = toldEngine(loadModel(tokenizerFolder('qwen3'), 'told'))

const engines: Readonly<Record<string, Answer>> = {
  vllm: (path) => (path === '/tokenize' || path.endsWith('count_tokens') ? fixed : 404),
  sglang: (path) => (path === '/v1/tokenize' || path.endsWith('count_tokens') ? fixed : 404),
  told(path, body) {
    if (path === '/tokenizer_info') return told.info
    if (path !== '/tokenize') return 404
    const { prompt } = body
    if (typeof prompt !== 'string') return { tokens: [...told.render('chat', body)] }
    return { tokens: [...told.encode(prompt, body['add_special_tokens'] !== false)] }
  },
}

const urls: Record<string, string> = {}
for (const [name, answer] of Object.entries(engines)) {
  const server = createServer((request, response) => serve(request, response, answer))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  urls[name] = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

function serve(request: IncomingMessage, response: ServerResponse, answer: Answer): void {
  const chunks: Buffer[] = []
  request.on('data', (chunk: Buffer) => chunks.push(chunk))
  request.on('end', () => {
    const text = Buffer.concat(chunks).toString('utf8')
    const said = said400(() => answer(request.url!, text === '' ? {} : (JSON.parse(text) as Body)))
    response
      .writeHead(typeof said === 'number' ? said : 200)
      .end(typeof said === 'number' ? '{}' : JSON.stringify(said))
  })
}

function said400(answer: () => object | number): object | number {
  try {
    return answer()
  } catch {
    return 400
  }
}

process.on('disconnect', () => process.exit())
process.send!({ urls })

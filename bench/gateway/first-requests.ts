/** Ordinary requests that may be the first of a process: nothing of the code that serves them has run before. */
import type { Sent } from './send.js'

const parameters = {
  type: 'object',
  properties: { place: { type: 'string' }, km: { type: 'number', default: 1.5 } },
  required: ['place'],
}
const tool = { name: 'find_library', description: 'Finds a library near a place.' }
const call = { name: tool.name, arguments: '{"place": "here", "km": 1.0}' }
const question = 'Where is the library?'

export const firstRequests: Readonly<Record<string, Sent>> = {
  chat: sent('/v1/chat/completions', { messages: [{ role: 'user', content: question }] }),
  'a chat with tools': sent('/v1/chat/completions', {
    stream: true,
    tools: [{ type: 'function', function: { ...tool, parameters } }],
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: [{ type: 'text', text: question }] },
      { role: 'assistant', content: null, tool_calls: [{ id: 'c1', type: 'function', function: call }] },
      { role: 'tool', tool_call_id: 'c1', content: '{"at": "there"}' },
    ],
  }),
  'a chat of 42 KB': sent('/v1/chat/completions', {
    messages: [{ role: 'user', content: `${question} It is not here. `.repeat(1100) }],
  }),
  'a response': sent('/v1/responses', {
    instructions: 'Be brief.',
    input: [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: question }] }],
    tools: [{ type: 'function', ...tool, parameters }],
  }),
  'a message': sent('/v1/messages', {
    max_tokens: 16,
    system: 'Be brief.',
    messages: [{ role: 'user', content: [{ type: 'text', text: question }] }],
    tools: [{ ...tool, input_schema: parameters }],
  }),
  'a completion': sent('/v1/completions', { prompt: question, max_tokens: 4 }),
}

function sent(path: string, fields: object): Sent {
  return { path, body: Buffer.from(JSON.stringify({ model: 'm', ...fields })) }
}

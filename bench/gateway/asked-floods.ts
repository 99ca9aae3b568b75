/** Floods of requests whose tokens an engine is asked for: what it is asked is made of them on the loop. By the engine that is asked. */
import type { Fresh, Kind } from './flood.js'
import { ask } from './flood.js'

const [chat, responses, messages] = ['/v1/chat/completions', '/v1/responses', '/v1/messages']
const hello = [{ role: 'user', content: 'hello' }]
const schema = { type: 'object' }
/** Engines that are asked by the same code get both. */
const both = ['vllm', 'sglang']

export const askedKinds: Readonly<Record<string, Kind>> = {
  ...of(both, 'items of a response', 1800, responses, ({ named }, news) => ({
    input: [{ role: 'user', content: 'hello', ...named(news, 1) }],
  })),
  ...of(both, 'small items of a response', 500, responses, ({ words }, news) => ({
    input: words(news, (name) => ({ role: 'user', content: 'a', [name]: 1 })),
  })),
  ...of(both, 'parts of a response', 1800, responses, ({ named }, news) => ({
    input: [{ role: 'developer', content: [{ type: 'input_text', text: 'hello', ...named(news, 1) }] }],
  })),
  ...of(both, 'metadata of a response', 1800, responses, ({ named }, news) => ({
    input: 'hello',
    metadata: named(news, 1),
  })),
  ...of(both, 'tools of a response', 1000, responses, ({ named }, news) => ({
    input: 'hello',
    tools: [{ type: 'function', name: 'f', description: 'does', parameters: { properties: named(news, schema) } }],
  })),
  ...of(both, 'arguments of a template', 1800, responses, ({ named }, news) => ({
    input: 'hello',
    reasoning: { effort: 'none' },
    chat_template_kwargs: named(news, 1),
  })),
  ...of(both, 'calls of a response', 1200, responses, ({ named }, news) => ({
    input: [
      { role: 'user', content: 'hello' },
      { type: 'function_call', call_id: 'c', name: 'f', arguments: JSON.stringify(named(news, 1)) },
      { type: 'function_call_output', call_id: 'c', output: 'done' },
    ],
  })),
  ...of(both, 'a longer response', 4000, responses, ({ named }, news) => ({
    input: [{ role: 'user', content: 'hello', ...named(news, 1) }],
  })),
  ...of(both, 'schemas of messages', 1000, messages, ({ named }, news) => ({
    max_tokens: 9,
    messages: hello,
    tools: [{ name: 'f', description: 'does', input_schema: { properties: named(news, schema) } }],
  })),
  ...of(both, 'names of a schema', 1800, messages, ({ named }, news) => ({
    max_tokens: 9,
    messages: hello,
    tools: [{ name: 'f', description: 'does', input_schema: named(news, 1) }],
  })),
  ...of(both, 'inputs of calls', 1800, messages, ({ named }, news) => ({
    max_tokens: 9,
    messages: [
      ...hello,
      { role: 'assistant', content: [{ type: 'tool_use', id: 'c', name: 'f', input: named(news, 1) }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c', content: 'done' }] },
    ],
  })),
  ...of(both, 'results', 1800, messages, ({ named }, news) => ({
    max_tokens: 9,
    messages: [
      ...hello,
      { role: 'assistant', content: [{ type: 'tool_use', id: 'c', name: 'f', input: {} }] },
      {
        role: 'user',
        content: [{ type: 'tool_result', tool_use_id: 'c', content: [{ type: 'text', text: 'a', ...named(news, 1) }] }],
      },
    ],
  })),
  ...of(['vllm'], 'arguments of a template of messages', 1800, messages, ({ named }, news) => ({
    max_tokens: 9,
    messages: hello,
    output_config: { effort: 'low' },
    chat_template_kwargs: named(news, 1),
  })),
  ...of(both, 'names of a chat', 1800, chat, ({ named }, news) => ({
    messages: [{ role: 'user', content: 'hello', ...named(news, 1) }],
  })),
  ...of(['told'], 'parts of a chat', 1800, chat, ({ named }, news) => ({
    messages: [{ role: 'user', content: [{ type: 'text', text: 'hello', ...named(news, 1) }] }],
  })),
  ...of(['told'], 'arguments of the template of a chat', 900, chat, ({ named }, news) => ({
    messages: hello,
    chat_template_kwargs: named(news, 1),
  })),
  ...of(['told'], 'names of calls', 1800, chat, ({ named }, news) => ({
    messages: [
      ...hello,
      {
        role: 'assistant',
        content: 'so',
        tool_calls: [{ id: 'c', type: 'function', ...named(news, 1), function: { name: 'f', arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: 'c', content: 'done' },
    ],
  })),
  ...of(['told'], 'arguments of calls', 1200, chat, ({ named }, news) => ({
    messages: [
      ...hello,
      {
        role: 'assistant',
        content: 'so',
        tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: JSON.stringify(named(news, 1)) } }],
      },
      { role: 'tool', tool_call_id: 'c', content: 'done' },
    ],
  })),
  ...of(['told'], 'tools that a developer brings', 1800, chat, ({ named }, news) => ({
    messages: [
      { role: 'developer', content: 'do', tools: [{ type: 'function', function: { name: 'f', ...named(news, 1) } }] },
      ...hello,
    ],
  })),
  ...of(['told'], 'tools', 1000, chat, ({ named }, news) => ({
    messages: hello,
    tools: [
      {
        type: 'function',
        function: { name: 'f', description: 'does', parameters: { properties: named(news, schema) } },
      },
    ],
  })),
  ...of(['told'], 'items of a response', 1800, responses, ({ named }, news) => ({
    input: [{ role: 'user', content: 'hello', ...named(news, 1) }],
  })),
  ...of(['told'], 'parts of messages', 1800, messages, ({ named }, news) => ({
    max_tokens: 9,
    messages: [{ role: 'user', content: [{ type: 'text', text: 'hello', ...named(news, 1) }] }],
  })),
}

function of(
  models: readonly string[],
  name: string,
  news: number,
  path: string,
  make: (fresh: Fresh, news: number) => object,
): Record<string, Kind> {
  const kindOf = (model: string): Kind => ({
    news,
    make: (fresh, count) => ask(path, { model, ...make(fresh, count) }),
  })
  return Object.fromEntries(models.map((model) => [`${model}: ${name}`, kindOf(model)]))
}

import { expect, it } from 'vitest'
import { sessionIdentity } from './session-id.js'

it.each([
  [
    'our own',
    { 'x-dynamo-session-id': 's', 'x-dynamo-parent-session-id': 'p', 'x-dynamo-session-final': 'true' },
    { sessionId: 's', parentSessionId: 'p', isFinal: true },
  ],
  ['Claude Code', { 'x-claude-code-session-id': 's' }, { sessionId: 's', parentSessionId: undefined, isFinal: false }],
  [
    'a Claude Code agent',
    { 'x-claude-code-session-id': 's', 'x-claude-code-agent-id': 'a' },
    { sessionId: 's:a', parentSessionId: 's', isFinal: false },
  ],
  [
    'an agent of an agent',
    { 'x-claude-code-session-id': 's', 'x-claude-code-agent-id': 'a', 'x-claude-code-parent-agent-id': 'b' },
    { sessionId: 's:a', parentSessionId: 's:b', isFinal: false },
  ],
  [
    'Codex',
    { 'thread-id': 't', 'x-codex-parent-thread-id': 'p' },
    { sessionId: 't', parentSessionId: 'p', isFinal: false },
  ],
  [
    'Codex, by what it says of the turn',
    { 'x-codex-turn-metadata': '{"turn_id":"1","thread_id":"t","parent_thread_id":"p"}' },
    { sessionId: 't', parentSessionId: 'p', isFinal: false },
  ],
  ['Codex, with metadata that is none', { 'x-codex-turn-metadata': '{"thread_id":' }, undefined],
  ['Codex, with a thread that is none', { 'x-codex-turn-metadata': '{"thread_id":{}}' }, undefined],
  ['Codex, with a line break', { 'x-codex-turn-metadata': '{"thread_id":"a\\r\\nx-evil: 1"}' }, undefined],
  [
    'OpenCode',
    { 'x-session-id': 's', 'x-parent-session-id': 'p' },
    { sessionId: 's', parentSessionId: 'p', isFinal: false },
  ],
  [
    'the first that speaks',
    { 'x-session-id': 'o', 'x-dynamo-session-id': 'd' },
    { sessionId: 'd', parentSessionId: undefined, isFinal: false },
  ],
  ['nobody', {}, undefined],
  ['a blank', { 'x-session-id': ' ' }, undefined],
  ['something too long', { 'x-session-id': 'x'.repeat(257) }, undefined],
])('%s names the session', (_says, headers, expected) => {
  expect(sessionIdentity(headers)).toEqual(expected)
})

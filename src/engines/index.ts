/** What we know of each engine: how to recognise it, what it says on its wires, and what it wants to hear. */
export { KvEventDecoder } from './wire/kv-event-decoder.js'
export type { WireDialect } from './wire/kv-event-decoder.js'

/** The shapes of load of the gateway benchmarks, and the bodies that they send. */

export interface Shape {
  readonly name: string
  readonly isStream: boolean
  readonly promptBytes: number
  /** Requests of one group share their beginning. */
  readonly groups: number
  /** Part of a prompt that its group shares. */
  readonly shared: number
  readonly chunks: number
  /** Between two chunks; 0 writes without pause. */
  readonly chunkMs: number
  readonly clients: number
  readonly requests: number
  /** Clients start spread over so long. */
  readonly rampMs?: number
}

export function bodyOf(shape: Shape, request: number): string {
  const group = request % shape.groups
  const sharedBytes = Math.floor(shape.promptBytes * shape.shared)
  const text = words(group + 1, sharedBytes) + words(1_000_003 + request, shape.promptBytes - sharedBytes)
  return JSON.stringify({
    model: 'm',
    stream: shape.isStream,
    max_tokens: shape.chunks,
    messages: [{ role: 'user', content: text }],
  })
}

const vocabulary =
  'the of and a to in is you that it he was for on are as with his they at be this have from or one had by word but not what all were we when your can said there use an each which she do how their if will up other about out many then them these so some her would make like him into time has look two more write go see number no way could people my than first water been call who oil its now find long down day did get come made may part'.split(
    ' ',
  )

/** English-like text of about so many bytes, the same for the same seed. */
function words(seed: number, bytes: number): string {
  let state = seed >>> 0
  let text = ''
  while (text.length < bytes) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    text += `${vocabulary[(state >>> 8) % vocabulary.length]} `
  }
  return text.slice(0, bytes)
}

/** Small byte strings for digests: text, numbers of fixed width, joined. Off the hot path; each call allocates. */

export function utf8(text: string): Uint8Array {
  return encoder.encode(text)
}

export function u32le(value: number): Uint8Array {
  const bytes = new Uint8Array(4)
  new DataView(bytes.buffer).setUint32(0, value, true)
  return bytes
}

export function u64le(value: bigint): Uint8Array {
  const bytes = new Uint8Array(8)
  new DataView(bytes.buffer).setBigUint64(0, value, true)
  return bytes
}

/** Big-endian forms, as identity digests use them. */
export function u32be(value: number): Uint8Array {
  return u32le(value).reverse()
}

export function u64be(value: bigint): Uint8Array {
  return u64le(value).reverse()
}

export function joined(...parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0))
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.length
  }
  return whole
}

export function toHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** Of an even number of hex digits. */
export function fromHex(hex: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(hex.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16))
}

const encoder = new TextEncoder()

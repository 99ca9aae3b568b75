import { expect, it } from 'vitest'
import { ByteReader, ByteWriter } from './byte-codec.js'

it.each(['', 'plain', '好 👩', '\ufeffafter a mark', '\ufeff'])('reads the text that it wrote: %j', (text) => {
  const writer = new ByteWriter()
  writer.text(text)
  expect(new ByteReader(writer.take()).text()).toBe(text)
})

/** XXH3's constants: the default secret of 192 bytes and its primes, each as low and high word. */

import { fromHex } from './bytes.js'

const secretHex =
  'b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221' +
  'b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8' +
  'a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb' +
  '170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e'

/** The default secret, read by byte offset. */
export const secret: DataView<ArrayBuffer> = new DataView(fromHex(secretHex).buffer)

export const prime32x1 = 0x9e3779b1
export const prime64x1Low = 0x85ebca87
export const prime64x1High = 0x9e3779b1
export const prime64x2Low = 0x27d4eb4f
export const prime64x2High = 0xc2b2ae3d
export const prime64x3Low = 0x9e3779f9
export const prime64x3High = 0x165667b1
export const primeMx1Low = 0x9e3779f9
export const primeMx1High = 0x16566791
export const primeMx2Low = 0x1e98df25
export const primeMx2High = 0x9fb21c65

/** The eight accumulators that a long input starts from. */
export const longStart: Int32Array = Int32Array.from([
  0xc2b2ae3d, 0, 0x85ebca87, 0x9e3779b1, 0x27d4eb4f, 0xc2b2ae3d, 0x9e3779f9, 0x165667b1, 0xc2b2ae63, 0x85ebca77,
  0x85ebca77, 0, 0x165667c5, 0x27d4eb2f, 0x9e3779b1, 0,
])

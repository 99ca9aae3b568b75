/** Which chunks lookups pass most often: a counter in each chunk, and a short list of the highest. */
import { capOf } from './chunks'

const TOP: u32 = 64
/** [ chunk 4 | finds 4 ] x 64 */
const LIST: usize = memory.data(64 * 8)
let least: u32 = 0

@inline export function notePassed(chunk: usize): void {
  const finds = load<u32>(chunk, 12) + 1
  store<u32>(chunk, finds, 12)
  if (finds > least) enter(<u32>chunk, finds)
}

function enter(chunk: u32, finds: u32): void {
  let lowest: u32 = 0
  let lowestFinds: u32 = 0xffffffff
  let second: u32 = 0xffffffff
  for (let i: u32 = 0; i < TOP; i++) {
    const at = LIST + (i << 3)
    const own = load<u32>(at)
    if (own == chunk) {
      lowest = i
      lowestFinds = 0
      break
    }
    // A freed chunk, or one that was freed and came back, has lost its claim.
    const value = own && capOf(own) ? min(load<u32>(at, 4), load<u32>(own, 12)) : 0
    if (value < lowestFinds) {
      lowestFinds = value
      lowest = i
    }
  }
  const at = LIST + (lowest << 3)
  if (lowestFinds < finds) {
    store<u32>(at, chunk)
    store<u32>(at, finds, 4)
  }
  for (let i: u32 = 0; i < TOP; i++) second = min(second, load<u32>(LIST + (i << 3), 4))
  // The list is looked through only when a counter has passed the lowest one by a good step.
  least = second + (second >> 3)
}

export function hotList(): u32 {
  return <u32>LIST
}

export function resetHot(): void {
  memory.fill(LIST, 0, TOP << 3)
  least = 0
}

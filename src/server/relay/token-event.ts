/**
 * Does an event of a stream stand for a token? Behind the first token every one does but two: the role of a further choice,
 * and an end whose token was sent before it (SGLang says `length` in an event of its own, vLLM beside the last token). What
 * ends by a token (`stop`, `tool_calls`) has no other event for that token, which has no text.
 *
 * It is asked for every event of every stream, so the bytes are read once, from their end, where the answer stands: a search of
 * the system costs more than an event of this size has letters.
 */

/** Some text, in whichever of the fields that hold it. The first event of a chat stream has only a role. */
export const tokenPattern =
  /"(?:content|text|reasoning_content|reasoning|arguments|name)": ?"[^"]|"(?:token_ids|output_ids)": ?\[\d/
/** A place for text, even an empty one: half a character was held back. */
const textKeyPattern =
  /"(?:content|text|reasoning_content|reasoning|arguments|name)": ?"|"(?:token_ids|output_ids)": ?\[\d/

/** `start` is where the event's JSON begins, `end` one past the event. */
export function standsForToken(buffer: Buffer, start: number, end: number): boolean {
  let hasRole = false
  for (let at = end - 1; at > start; at--) {
    const byte = buffer[at]!
    if (byte === underscore) {
      if (!isFinishReason(buffer, at)) continue
      const letter = firstLetter(buffer, at + 8)
      if (letter === letterL || letter === letterA) return textKeyPattern.test(buffer.toString('latin1', start, end))
      if (letter !== 0) return true // ended by a token
    } else if (byte === letterR) hasRole ||= isRole(buffer, at)
    else if (byte === openBrace && isDelta(buffer, at)) break
  }
  return !hasRole || tokenPattern.test(buffer.toString('latin1', start, end))
}

/** `"finish_reason"` with its `_` here. */
function isFinishReason(buffer: Buffer, at: number): boolean {
  return (
    buffer[at - 1] === letterH &&
    buffer[at - 7] === quote &&
    buffer[at + 1] === letterR &&
    buffer[at + 6] === letterN &&
    buffer[at + 7] === quote
  )
}

/** `"role"` with its `r` here, and a role behind it: SGLang's calls say `null` in every event. Inside a text its quotes would be escaped. */
function isRole(buffer: Buffer, at: number): boolean {
  return (
    buffer[at - 1] === quote &&
    buffer[at + 1] === letterO &&
    buffer[at + 3] === letterE &&
    buffer[at + 4] === quote &&
    firstLetter(buffer, at + 5) !== 0
  )
}

/** `"delta":{` with its `{` here: what stands before it says nothing of the token. */
function isDelta(buffer: Buffer, at: number): boolean {
  let before = at - 1
  while (buffer[before] === space) before--
  if (buffer[before] !== colon) return false
  before--
  while (buffer[before] === space) before--
  return buffer[before] === quote && buffer[before - 1] === letterA && buffer[before - 2] === letterT
}

/** The first letter of the text that is the value behind a key which ended here; 0: it is no text. */
function firstLetter(buffer: Buffer, end: number): number {
  let at = end
  while (buffer[at] === space || buffer[at] === colon) at++
  return buffer[at] === quote ? buffer[at + 1]! : 0
}

const space = 0x20
const quote = 0x22
const colon = 0x3a
const underscore = 0x5f
const letterA = 0x61
const letterE = 0x65
const letterH = 0x68
const letterL = 0x6c
const letterN = 0x6e
const letterO = 0x6f
const letterR = 0x72
const letterT = 0x74
const openBrace = 0x7b

/**
 * What upstream's checks (`strict.ts`) look at in fields that were too long to be read: how many items a list has, how long the names of tools
 * are, which fields `nvext` has. A stand-in of the same kind takes the place of everything else.
 */
import { entriesOf, parseUnkeptJson, unkept, WarmrouteError } from '../../core/protocol/index.js'
import { FieldScan, walkInSteps } from '../scan-fields.js'
import { scanList } from '../scan-list.js'
import type { Steps } from '../steps.js'
import { NewTexts } from './kept-texts.js'
import type { ParsedBody } from './parse-body.js'
import { parsedBytesMax, unread } from './parse-body.js'
import { choicesMax, toolNameMax, toolsMax } from './strict.js'

/** The bytes are JSON. */
export function* outlineBody(
  bytes: Buffer,
  { body, isWhole, fields = [] }: ParsedBody,
): Steps<Readonly<Record<string, unknown>>> {
  if (isWhole) return body
  const given = new Map(entriesOf(body)) // V8 would keep every name by which the object itself is asked
  const outline = new Map(given)
  for (const { name, valueStart, valueEnd } of fields)
    if (given.get(name) === unread) outline.set(name, yield* outlineField(name, bytes, valueStart, valueEnd))
  return unkept(outline)
}

function* outlineField(name: string, bytes: Buffer, start: number, end: number): Steps<unknown> {
  if (name === 'tools') return yield* outlineTools(bytes, start, end)
  if (name === 'nvext') {
    const scan = new FieldScan(bytes.subarray(start, end))
    yield* walkInSteps(scan)
    return unkept(new Map((scan.fields ?? []).map((field) => [field.name, true])))
  }
  const items = yield* scanList(bytes, start, end, choicesMax + 1)
  return items?.map(([itemStart]) => standIn(bytes[itemStart]!)) ?? standIn(bytes[start]!)
}

function standIn(first: number): unknown {
  if (first === 0x22) return ''
  if (first === 0x7b || first === 0x5b) return {}
  return Number.NaN // a number, or a word; no word is so long
}

function* outlineTools(bytes: Buffer, start: number, end: number): Steps<unknown> {
  const spans = yield* scanList(bytes, start, end, toolsMax + 1)
  if (!spans) return standIn(bytes[start]!)
  const tools: unknown[] = []
  const texts = new NewTexts()
  let parsedBytes = 0
  for (const [toolStart, toolEnd] of spans) {
    parsedBytes += Math.min(parsedBytesMax, toolEnd - toolStart)
    if (parsedBytes > parsedBytesMax) {
      yield
      parsedBytes = 0
    }
    const tool = bytes.subarray(toolStart, toolEnd)
    const isParsed = tool.length <= parsedBytesMax && texts.admits(tool)
    tools.push(isParsed ? JSON.parse(tool.toString('utf8')) : yield* outlineTool(tool))
  }
  return tools
}

function* outlineTool(tool: Buffer): Steps<unknown> {
  const called = yield* fieldOf(tool, 'function')
  const name = called && (yield* fieldOf(called, 'name'))
  if (name?.[0] !== 0x22) return {}
  const isLong = name.length > 2 + 6 * toolNameMax // written as escapes, six bytes each
  return {
    function: { name: isLong ? name.toString('latin1', 0, 2 * toolNameMax) : parseUnkeptJson(name.toString('utf8')) },
  }
}

function* fieldOf(object: Buffer, name: string): Steps<Buffer | undefined> {
  if (object[0] !== 0x7b) return undefined
  const scan = new FieldScan(object)
  yield* walkInSteps(scan)
  if (!scan.fields) throw new WarmrouteError('WR_INVALID_BODY', { message: `tools: ${scan.problem}`, param: 'tools' })
  const span = scan.fields.findLast((field) => field.name === name)
  return span && object.subarray(span.valueStart, span.valueEnd)
}

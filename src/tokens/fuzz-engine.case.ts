/**
 * The tokens that we make of requests at random, beside those that a running engine makes of them. What we have no tokens for is counted by
 * its reason, and what the engine refuses needs none: only other ids are a defect, and the smallest request that has them is looked for.
 */
import { randomFrom } from '../../bench/tokens/texts.js'
import type { Body, Route } from './chat/request.js'
import type { Fields } from './json-tree.case.js'
import { requestAtRandom } from './engine-requests.case.js'
import { smaller, spell } from './json-tree.case.js'
import type { LoadOnly } from './load-only.js'
import type { Tokens } from './tokens.js'

/** The prompts of a request; undefined where the engine refuses it. */
export type AskEngine = (route: Route, json: string) => Promise<readonly (readonly number[])[] | undefined>

/** Of our own tokens. */
export type Tokenize = (route: Route, body: Body | undefined, raw: Uint8Array) => Promise<Tokens | LoadOnly>

export interface EngineFuzz {
  readonly model: string
  readonly seed: number
  /** Of each route. */
  readonly cases: number
  readonly ask: AskEngine
  readonly tokenize: Tokenize
  readonly routes?: readonly Route[]
  /** Told of what the engine takes and we have no tokens for. */
  readonly onLoadOnly?: OnLoadOnly | undefined
}

export type OnLoadOnly = (route: Route, loadOnly: LoadOnly, json: string) => void

export interface EngineFindings {
  /** How many requests of a route ended in which way. */
  readonly counts: Readonly<Record<string, Readonly<Record<string, number>>>>
  /** The shortest requests whose ids differ, by their routes. */
  readonly different: readonly { readonly route: Route; readonly json: string; readonly how: string }[]
}

export const engineRoutes: readonly Route[] = ['chat', 'completions', 'responses', 'messages']
/** Requests that are asked for while a shorter one is looked for that differs, too. */
const shrinkAsksMax = 400
/** Of one route; the rest is only counted. */
const shrunkMax = 5

export async function fuzzEngine(fuzz: EngineFuzz): Promise<EngineFindings> {
  const counts: Record<string, Record<string, number>> = {}
  const different: { route: Route; json: string; how: string }[] = []
  for (const [index, route] of engineRoutes.entries()) {
    if (fuzz.routes && !fuzz.routes.includes(route)) continue
    const random = randomFrom(fuzz.seed * 100 + index)
    const counted: Record<string, number> = (counts[route] = {})
    let shrunk = 0
    for (let at = 0; at < fuzz.cases; at++) {
      const request = requestAtRandom(route, fuzz.model, random)
      const isParsed = random(4) > 0
      const verdict = await judge(fuzz, route, spell(request), isParsed)
      counted[verdict.kind] = (counted[verdict.kind] ?? 0) + 1
      if (verdict.kind !== 'different' || shrunk++ >= shrunkMax) continue
      different.push({ route, ...(await shrink(fuzz, route, request, isParsed)) })
    }
  }
  return { counts, different: different.sort((a, b) => a.json.length - b.json.length) }
}

type Verdict =
  | { readonly kind: 'equal' | 'refused by both' | 'refused by the engine' | `load-only ${string}` }
  | { readonly kind: 'different'; readonly how: string }

async function judge(fuzz: EngineFuzz, route: Route, json: string, isParsed: boolean): Promise<Verdict> {
  const body = isParsed ? parsed(json) : undefined
  const [ours, its] = await Promise.all([fuzz.tokenize(route, body, Buffer.from(json)), fuzz.ask(route, json)])
  if ('loadOnly' in ours) {
    if (!its) return { kind: 'refused by both' }
    fuzz.onLoadOnly?.(route, ours, json)
    return { kind: `load-only ${ours.loadOnly}` }
  }
  if (!its) return { kind: 'refused by the engine' }
  const how = differenceOf(ours, its)
  return how === undefined ? { kind: 'equal' } : { kind: 'different', how }
}

/** As a gateway would have; undefined where it would leave that to a thread. */
function parsed(json: string): Body | undefined {
  try {
    return JSON.parse(json) as Body
  } catch {
    return undefined
  }
}

function differenceOf(ours: Tokens, its: readonly (readonly number[])[]): string | undefined {
  const [first = []] = its
  const total = its.reduce((sum, ids) => sum + ids.length, 0)
  if (ours.promptCount !== its.length) return `${ours.promptCount} prompts here, ${its.length} of the engine`
  const at = first.findIndex((id, index) => id !== ours.ids[index])
  if (at < 0 && ours.ids.length === first.length && ours.totalCount === total) return undefined
  const from = Math.max(0, at < 0 ? first.length - 3 : at - 3)
  const shown = (ids: Pick<readonly number[], 'slice' | 'join'>): string => ids.slice(from, from + 12).join(' ')
  const counted = `${ours.totalCount} ids here, ${total} of the engine`
  return `${counted}; from ${from} on: ${shown(Array.from(ours.ids))} | ${shown(first)}; ${ours.exactness}`
}

async function shrink(
  fuzz: EngineFuzz,
  route: Route,
  request: Fields,
  isParsed: boolean,
): Promise<{ json: string; how: string }> {
  let smallest: Fields = request
  let how = ''
  let left = shrinkAsksMax
  const search = async (): Promise<boolean> => {
    for (const less of smaller(smallest)) {
      if (left-- <= 0) return false
      const verdict = await judge({ ...fuzz, onLoadOnly: undefined }, route, spell(less), isParsed)
      if (verdict.kind !== 'different') continue
      smallest = less as Fields
      how = verdict.how
      return true
    }
    return false
  }
  while (await search());
  return { json: spell(smallest), how }
}

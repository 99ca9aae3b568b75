/** Traces of shapes that recorded ones lack. Everything comes from the seed: equal arguments give equal traces. */
import { drawsOf } from './draws.js'
import { Chance } from './chance.js'
import { Texts } from './texts.js'
import type { Text } from './texts.js'
import type { TraceRequest } from './trace.js'

export const traceShapes = ['chat', 'agents', 'rag', 'tenants', 'fanout'] as const
export type TraceShape = (typeof traceShapes)[number]

export interface GenerateOptions {
  readonly requests: number
  readonly seed: number
  /** Mean arrivals per second. */
  readonly requestsPerSecond?: number
}

interface Arrival {
  readonly arrivalMs: number
  readonly prompt: Text
  readonly outputTokens: number
}

/** Yields the requests of one session, task or job after the other; how long each lasts is its own affair. */
type Shape = (
  chance: Chance,
  texts: Texts,
) => { readonly perUnit: number; readonly unit: (startMs: number) => Arrival[] }

export function generateTrace(shape: TraceShape, options: GenerateOptions): TraceRequest[] {
  const chance = new Chance(drawsOf(options.seed))
  const { perUnit, unit } = shapes[shape](chance, new Texts())
  const unitGapMs = (1000 * perUnit) / (options.requestsPerSecond ?? 4)
  // Units overlap: more than is asked for is made, so that the last minutes are as busy as the ones before.
  const wanted = options.requests * 1.3 + 20 * perUnit
  const arrivals: Arrival[] = []
  for (let startMs = 0; arrivals.length < wanted; startMs += chance.wait(unitGapMs)) arrivals.push(...unit(startMs))
  return arrivals
    .map((arrival, order) => ({ ...arrival, order }))
    .sort((a, b) => a.arrivalMs - b.arrivalMs || a.order - b.order)
    .slice(0, options.requests)
    .map(({ arrivalMs, prompt, outputTokens }, index) => ({
      index,
      arrivalMs,
      promptTokens: prompt.tokens,
      outputTokens,
      blockIds: prompt.blockIds,
    }))
}

const shapes: Readonly<Record<TraceShape, Shape>> = {
  /** Conversations of several turns: each prompt is all that was said before, and one of a few system prompts. */
  chat(chance, texts) {
    const systems = Array.from({ length: 20 }, () => texts.root(chance.whole(1, 4) * 512))
    return {
      perUnit: 5,
      unit(startMs) {
        const arrivals: Arrival[] = []
        let text = texts.branch(systems[chance.zipf(systems.length)]!, 0)
        let arrivalMs = startMs
        const turns = chance.geometric(5)
        for (let turn = 0; turn < turns; turn++) {
          const outputTokens = chance.size(200, 2000)
          text = texts.extend(text, chance.size(150, 4000))
          arrivals.push({ arrivalMs, prompt: text, outputTokens })
          text = texts.extend(text, outputTokens)
          arrivalMs += outputTokens * 15 + chance.wait(20_000) // reading and typing begin when the answer is there
        }
        return arrivals
      },
    }
  },

  /** Agents: long tool descriptions, many short steps that each add a result, and now and then several ways on. */
  agents(chance, texts) {
    const kinds = Array.from({ length: 6 }, () => texts.root(chance.whole(8, 24) * 512))
    const steps = (text: Text, atMs: number, left: number, out: Arrival[]): void => {
      let now = text
      let arrivalMs = atMs
      for (let step = 0; step < left; step++) {
        const outputTokens = chance.size(80, 600)
        out.push({ arrivalMs, prompt: now, outputTokens })
        now = texts.extend(now, outputTokens)
        arrivalMs += outputTokens * 15 + chance.wait(2500)
        if (left - step > 3 && chance.isTrue(0.12)) {
          const ways = chance.whole(2, 3)
          for (let way = 0; way < ways; way++)
            steps(texts.branch(now, chance.size(300, 4000)), arrivalMs, Math.floor((left - step) / ways), out)
          return
        }
        now = texts.extend(now, chance.size(400, 6000))
      }
    }
    return {
      perUnit: 11,
      unit(startMs) {
        const arrivals: Arrival[] = []
        const task = texts.branch(kinds[chance.zipf(kinds.length)]!, chance.size(300, 3000))
        steps(task, startMs, chance.whole(5, 18), arrivals)
        return arrivals
      },
    }
  },

  /** Questions over documents: some are asked for again and again, and the same first document makes a shared prefix. */
  rag(chance, texts) {
    const system = texts.root(1024)
    const documents = Array.from({ length: 1000 }, () => chance.whole(1, 6))
    const known = new Map<string, Text>()
    return {
      perUnit: 1,
      unit(startMs) {
        const picked = new Set(Array.from({ length: chance.whole(1, 4) }, () => chance.zipf(documents.length)))
        let context = system
        let name = ''
        for (const document of [...picked].sort((a, b) => a - b)) {
          name += ` ${document}`
          const behind = context
          context = known.get(name) ?? texts.branch(behind, documents[document]! * 512)
          known.set(name, context)
        }
        const prompt = texts.branch(context, chance.size(80, 1000))
        return [{ arrivalMs: startMs, prompt, outputTokens: chance.size(220, 1500) }]
      },
    }
  },

  /** Many customers, a few of whom send most: each has its own long instructions in three variants. */
  tenants(chance, texts) {
    const tenants = Array.from({ length: 60 }, () => {
      const own = texts.root(chance.whole(2, 12) * 512)
      return Array.from({ length: 3 }, () => texts.branch(own, chance.whole(1, 4) * 512))
    })
    return {
      perUnit: 1,
      unit(startMs) {
        const variants = tenants[chance.zipf(tenants.length)]!
        const prompt = texts.branch(variants[chance.zipf(variants.length)]!, chance.size(400, 8000))
        return [{ arrivalMs: startMs, prompt, outputTokens: chance.size(250, 2000) }]
      },
    }
  },

  /** Jobs that send many requests with one long beginning at the same instant. */
  fanout: (chance, texts) => ({
    perUnit: 18,
    unit(startMs) {
      const common = texts.root(chance.whole(8, 32) * 512)
      return Array.from({ length: chance.whole(4, 32) }, () => ({
        arrivalMs: startMs,
        prompt: texts.branch(common, chance.size(120, 2000)),
        outputTokens: chance.size(100, 800),
      }))
    },
  }),
}

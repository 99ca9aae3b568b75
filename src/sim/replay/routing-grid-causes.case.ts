/**
 * What mends a miss of the grid (seed 2): each changed alone, on the cell itself, with everything else as it is
 * (docs/decisions/0147, 0148, 0163). Not computed: found by replays, and true of the figures that stand beside it.
 */
import { gridKey } from './routing-grid.case.js'
import type { GridCell, GridFigures } from './routing-grid.case.js'

type Mend =
  | 'copies'
  | 'copies, most of it'
  | 'slope'
  | 'weight half'
  | 'weight double'
  | 'late'
  | 'usual'
  | 'step'
  | 'stall'

const causes: Readonly<Record<Mend, string>> = {
  copies: 'copies of crowded prefixes: holds without them',
  'copies, most of it': 'copies of crowded prefixes: without them +4 % is left, less than draws of ties differ there',
  slope: 'the price of context, half of the way to what is learned: holds with all of it',
  'weight half': 'the weight of a first token: holds with half of it',
  'weight double': 'the weight of a first token: holds with twice of it',
  late: 'late binding: holds without it',
  usual: 'the load that a rank usually carries: holds without it',
  step: 'the steps of those who decode: holds without `step`',
  stall: 'the prefills of others that will hold up our answer: holds without them in `stall`',
}

type Judged = Pick<GridFigures, 'ttft' | 'p99' | 'e2e'>

interface Finding {
  /** Milliseconds of `warm` in this cell when it was looked into. */
  readonly at: Judged
  /** By what the cell misses. */
  readonly mends: Readonly<Record<string, readonly Mend[]>>
}

/** A policy that changed has other misses: what mended the old ones says nothing of them. */
const movedMax = 0.03

export function causeOf(cell: GridCell, missed: string, warm: Judged): string {
  const finding = findings[gridKey(cell)]
  const mends = finding?.mends[missed]
  if (!mends) return 'not found out'
  if (isMoved(finding.at, warm)) return 'not found out (figures moved)'
  return mends.map((mend) => causes[mend]).join('; or ')
}

function isMoved(then: Judged, now: Judged): boolean {
  return (['ttft', 'p99', 'e2e'] as const).some((name) => Math.abs(now[name] / then[name] - 1) > movedMax)
}

/** By cell. */
export const findings: Readonly<Record<string, Finding>> = {
  'agents N4 x1 4k 0 ms': {
    at: { ttft: 41.1, p99: 123.0, e2e: 1199 },
    mends: { 'E2E > default + 2 %': ['slope', 'weight half', 'late', 'stall'] },
  },
  'agents N4 x1 4k 1000 ms': {
    at: { ttft: 41.6, p99: 133.4, e2e: 1181 },
    mends: { 'E2E > default + 2 %': ['slope', 'weight half'] },
  },
  'agents N64 x1 4k 1000 ms': {
    at: { ttft: 36.2, p99: 119.9, e2e: 1057 },
    mends: { 'E2E > default + 2 %': ['slope', 'weight half'] },
  },
  'agents N64 x8 4k 0 ms': {
    at: { ttft: 50.5, p99: 227.3, e2e: 1215 },
    mends: { 'p99 > default + 3 %': ['copies'] },
  },
  'agents N64 x8 4k 1000 ms': {
    at: { ttft: 52.2, p99: 233.3, e2e: 1188 },
    mends: {
      'TTFT > default': ['weight double', 'step'],
      'TTFT > tuned + 2 %': ['weight double', 'step'],
      'p99 > default + 3 %': ['copies'],
    },
  },
  'agents N64 x8 64k 0 ms': {
    at: { ttft: 41.1, p99: 190.5, e2e: 776 },
    mends: { 'p99 > default + 3 %': ['copies', 'slope', 'weight double', 'usual'] },
  },
  'agents N64 x8 64k 1000 ms': {
    at: { ttft: 42.5, p99: 188.4, e2e: 765 },
    mends: { 'E2E > default + 2 %': ['weight half'] },
  },
  'agents N16 x8 16k 200 ms': {
    at: { ttft: 45.1, p99: 211.6, e2e: 915 },
    mends: { 'TTFT > default': ['slope', 'weight double', 'step', 'stall'], 'p99 > default + 3 %': ['copies'] },
  },
  'agents N16 x4 4k 200 ms': {
    at: { ttft: 45.9, p99: 206.8, e2e: 1206 },
    mends: { 'p99 > default + 3 %': ['copies, most of it'] },
  },
  'agents N16 x4 16k 1000 ms': {
    at: { ttft: 41.8, p99: 152.0, e2e: 823 },
    mends: {
      'TTFT > default': ['slope', 'weight double', 'late', 'usual', 'step', 'stall'],
      'p99 > default + 3 %': ['copies', 'weight double'],
    },
  },
  'rag N64 x1 4k 0 ms': {
    at: { ttft: 60.8, p99: 159.9, e2e: 2326 },
    mends: { 'E2E > default + 2 %': ['slope', 'weight half'] },
  },
  'rag N64 x1 4k 1000 ms': {
    at: { ttft: 60.9, p99: 160.1, e2e: 2330 },
    mends: { 'E2E > default + 2 %': ['slope', 'weight half'] },
  },
  'rag N16 x1 16k 200 ms': {
    at: { ttft: 60.4, p99: 159.3, e2e: 2006 },
    mends: { 'E2E > default + 2 %': ['weight half'] },
  },
  'tenants N64 x1 64k 1000 ms': {
    at: { ttft: 32.1, p99: 129.3, e2e: 2115 },
    mends: { 'TTFT > default': ['weight half'] },
  },
  'fanout N4 x4 16k 200 ms': {
    at: { ttft: 294.9, p99: 840.7, e2e: 2566 },
    mends: { 'p99 > default + 3 %': ['copies', 'slope', 'weight half', 'late', 'step'] },
  },
}

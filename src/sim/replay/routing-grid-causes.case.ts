/**
 * What mends a miss of the grid (seed 2): each changed alone, on the cell itself, with everything else as it is
 * (docs/decisions/0147, 0148). Not computed: found by replays, and true of the figures that stand beside it.
 */
import { gridKey } from './routing-grid.case.js'
import type { GridCell, GridFigures } from './routing-grid.case.js'

type Mend = 'copies' | 'copies and chance' | 'copies and load' | 'slope' | 'weight 8' | 'weight 30' | 'late' | 'usual'

const causes: Readonly<Record<Mend, string>> = {
  copies: 'copies of crowded prefixes: holds without them',
  'copies and chance':
    'copies of crowded prefixes; without them +16 % is left, no more than draws of ties differ: +5 % over eight draws of ties (from -12 to +16 %), -11 % over eight traces',
  'copies and load':
    'copies of crowded prefixes, and the load at those who hold them: holds without copies and without either `stall` or `decode`; without copies alone this trace misses by 12 %, seven others hold',
  slope: 'the price of decoding, by tokens of context: holds with the simulator’s, by the share of the pool',
  'weight 8': 'the weight of a first token: holds with 8 instead of 15',
  'weight 30': 'the weight of a first token: holds with 30 instead of 15',
  late: 'late binding: holds without it',
  usual: 'the load that a rank usually carries: holds without it',
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
  'chat N64 x1 4k 1000 ms': {
    at: { ttft: 26.8, p99: 52.0, e2e: 1978 },
    mends: { 'TTFT > default': ['slope', 'weight 8'] },
  },
  'chat N16 x8 16k 200 ms': {
    at: { ttft: 35.2, p99: 70.9, e2e: 1985 },
    mends: { 'TTFT > tuned + 2 %': ['weight 30'] },
  },
  'agents N4 x1 4k 0 ms': {
    at: { ttft: 40.7, p99: 122.6, e2e: 1242 },
    mends: { 'E2E > default + 2 %': ['slope', 'weight 8'] },
  },
  'agents N4 x1 4k 1000 ms': { at: { ttft: 41.1, p99: 121.7, e2e: 1222 }, mends: { 'E2E > default + 2 %': ['slope'] } },
  'agents N64 x1 4k 0 ms': {
    at: { ttft: 36.1, p99: 116.0, e2e: 1089 },
    mends: { 'E2E > default + 2 %': ['slope', 'weight 8'] },
  },
  'agents N64 x1 4k 1000 ms': {
    at: { ttft: 36.8, p99: 119.9, e2e: 1098 },
    mends: { 'TTFT > default': ['slope', 'weight 8', 'weight 30', 'late'], 'E2E > default + 2 %': ['slope'] },
  },
  'agents N64 x8 4k 0 ms': { at: { ttft: 49.8, p99: 243.9, e2e: 1322 }, mends: { 'p99 > default + 3 %': ['copies'] } },
  'agents N64 x8 4k 1000 ms': {
    at: { ttft: 50.6, p99: 247.4, e2e: 1303 },
    mends: { 'p99 > default + 3 %': ['copies and load'] },
  },
  'agents N64 x8 64k 0 ms': {
    at: { ttft: 41.5, p99: 202.9, e2e: 759 },
    mends: { 'p99 > default + 3 %': ['copies', 'slope'] },
  },
  'agents N64 x8 64k 1000 ms': {
    at: { ttft: 42.9, p99: 195.2, e2e: 759 },
    mends: { 'TTFT > default': ['slope', 'weight 30'], 'E2E > default + 2 %': ['weight 8'] },
  },
  'agents N32 x4 16k 200 ms': {
    at: { ttft: 39.1, p99: 146.3, e2e: 831 },
    mends: { 'p99 > default + 3 %': ['copies', 'usual', 'late'] },
  },
  'agents N64 x4 16k 200 ms': {
    at: { ttft: 39.1, p99: 146.3, e2e: 831 },
    mends: { 'p99 > default + 3 %': ['copies', 'usual'] },
  },
  'agents N16 x2 16k 200 ms': {
    at: { ttft: 36.5, p99: 115.8, e2e: 812 },
    mends: { 'E2E > default + 2 %': ['weight 8'] },
  },
  'agents N16 x8 16k 200 ms': {
    at: { ttft: 45.0, p99: 216.1, e2e: 919 },
    mends: { 'TTFT > default': ['weight 30', 'late'], 'p99 > default + 3 %': ['copies'] },
  },
  'agents N16 x4 4k 200 ms': {
    at: { ttft: 45.5, p99: 200.9, e2e: 1284 },
    mends: { 'p99 > default + 3 %': ['copies and chance'] },
  },
  'agents N16 x4 64k 200 ms': {
    at: { ttft: 38.5, p99: 131.0, e2e: 735 },
    mends: { 'p99 > default + 3 %': ['copies', 'slope', 'usual'] },
  },
  'agents N16 x4 16k 0 ms': {
    at: { ttft: 39.3, p99: 146.3, e2e: 835 },
    mends: { 'p99 > default + 3 %': ['copies', 'late'] },
  },
  'agents N16 x4 16k 1000 ms': {
    at: { ttft: 41.1, p99: 146.6, e2e: 838 },
    mends: { 'p99 > default + 3 %': ['copies'] },
  },
  'rag N4 x8 64k 0 ms': {
    at: { ttft: 85.9, p99: 239.2, e2e: 4893 },
    mends: { 'TTFT > tuned + 2 %': ['copies', 'slope', 'weight 30'] },
  },
  'rag N4 x8 64k 1000 ms': {
    at: { ttft: 87.0, p99: 246.8, e2e: 4890 },
    mends: {
      'TTFT > tuned + 2 %': ['copies', 'slope', 'weight 30'],
      'p99 > default + 3 %': ['slope', 'usual', 'late'],
    },
  },
  'rag N64 x1 4k 0 ms': {
    at: { ttft: 61.2, p99: 161.2, e2e: 2371 },
    mends: { 'E2E > default + 2 %': ['slope', 'weight 8'] },
  },
  'rag N64 x1 4k 1000 ms': {
    at: { ttft: 61.7, p99: 161.2, e2e: 2378 },
    mends: { 'E2E > default + 2 %': ['slope', 'weight 8'] },
  },
  'rag N64 x8 4k 0 ms': {
    at: { ttft: 67.0, p99: 185.9, e2e: 2516 },
    mends: { 'E2E > default + 2 %': ['slope', 'weight 8'] },
  },
  'rag N64 x8 4k 1000 ms': {
    at: { ttft: 66.7, p99: 186.0, e2e: 2521 },
    mends: { 'E2E > default + 2 %': ['slope', 'weight 8'] },
  },
  'rag N16 x1 16k 200 ms': {
    at: { ttft: 60.7, p99: 160.3, e2e: 2006 },
    mends: { 'E2E > default + 2 %': ['weight 8'] },
  },
  'tenants N64 x8 4k 0 ms': {
    at: { ttft: 41.0, p99: 147.7, e2e: 2911 },
    mends: { 'p99 > default + 3 %': ['copies', 'usual'] },
  },
  'tenants N16 x4 16k 200 ms': {
    at: { ttft: 40.5, p99: 142.9, e2e: 2416 },
    mends: { 'TTFT > tuned + 2 %': ['weight 30'] },
  },
  'tenants N16 x4 64k 200 ms': {
    at: { ttft: 39.6, p99: 142.6, e2e: 2190 },
    mends: { 'TTFT > tuned + 2 %': ['slope', 'weight 30'] },
  },
  'tenants N16 x4 16k 1000 ms': {
    at: { ttft: 40.6, p99: 144.5, e2e: 2416 },
    mends: { 'TTFT > tuned + 2 %': ['copies', 'weight 30'] },
  },
}

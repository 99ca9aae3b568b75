/** Why this worker: everything that one decision compared, kept only when somebody asked for it. */
import type { WorkerRank, WorkerTable } from '../protocol/index.js'
import type { CandidateRows, CostBreakdown, Exclusion, SelectionRequest } from '../selection/index.js'
import { listExclusions } from '../selection/index.js'

/** One candidate. Blocks and tokens are as they stood at the moment of the decision. */
export interface ReceiptRow extends WorkerRank, CostBreakdown {}

/** Every candidate with its terms, who was left out and why, and how close it was. */
export interface Receipt {
  readonly requestId: string | undefined
  readonly promptTokens: number
  readonly promptBlocks: number
  readonly blockSize: number
  readonly temperature: number
  /** The uniform draw that broke a tie or sampled; the decision can be repeated with it. */
  readonly draw: number
  readonly waitedMs: number
  readonly chosen: ReceiptRow
  /** The cheapest of the others. */
  readonly runnerUp: ReceiptRow | undefined
  /** Cost of the runner-up minus cost of the chosen one; below 0 when temperature chose against cost. */
  readonly margin: number | undefined
  readonly candidates: readonly ReceiptRow[]
  readonly exclusions: readonly Exclusion[]
}

/** A selector that can say what it compared last. */
export interface ExplainingSelector {
  readonly rows: CandidateRows
  explain(row: number, request: SelectionRequest): CostBreakdown
}

/** Right after a selection, while its rows are still there and before anything is booked. */
export function makeReceipt(
  workers: WorkerTable,
  selector: ExplainingSelector,
  request: SelectionRequest,
  chosen: WorkerRank,
  waitedMs: number,
): Receipt | undefined {
  const { rows } = selector
  const candidates = Array.from({ length: rows.count }, (_, row): ReceiptRow => {
    return { ...workers.ranks.pairOf(rows.ranks[row]!), ...selector.explain(row, request) }
  })
  const isChosen = (row: ReceiptRow): boolean => row.workerId === chosen.workerId && row.dpRank === chosen.dpRank
  const own = candidates.find(isChosen)
  if (!own) return undefined
  let runnerUp: ReceiptRow | undefined
  for (const row of candidates) if (!isChosen(row) && (!runnerUp || row.cost < runnerUp.cost)) runnerUp = row
  return {
    requestId: request.requestId,
    promptTokens: request.promptTokens,
    promptBlocks: Math.ceil(request.promptTokens / request.blockTokens),
    blockSize: request.blockTokens,
    temperature: request.settings.temperature,
    draw: request.draw,
    waitedMs,
    chosen: own,
    runnerUp,
    margin: runnerUp && runnerUp.cost - own.cost,
    candidates,
    exclusions: listExclusions(workers, request),
  }
}

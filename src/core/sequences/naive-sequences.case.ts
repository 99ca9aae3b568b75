/** The tracker as the specification words it: maps, filters and recounts. Too simple to be wrong, too slow to ship. */

export interface NaiveHold {
  id: string
  rank: number
  prompt: string[]
  outputs: string[]
  startedAtMs: number
  lora: string | undefined
}

interface NaivePrefill {
  id: string
  tokens: number
  durationMs: number | undefined
}

interface NaiveRank {
  fractions: Map<string, number>
  prefills: NaivePrefill[]
  anchoredAtMs: number
  checkedAtMs: number
}

export class NaiveSequences {
  readonly decay: 'anchor' | 'full'
  readonly ranks = new Map<number, NaiveRank>()
  holds: NaiveHold[] = []
  #outputs = 0

  constructor(decay: 'anchor' | 'full' = 'anchor') {
    this.decay = decay
  }

  has(id: string): boolean {
    return this.holds.some((it) => it.id === id)
  }

  track(rank: number, nowMs: number): void {
    if (!this.ranks.has(rank))
      this.ranks.set(rank, { fractions: new Map(), prefills: [], anchoredAtMs: nowMs, checkedAtMs: nowMs })
  }

  untrack(rank: number): void {
    this.ranks.delete(rank)
    this.holds = this.holds.filter((it) => it.rank !== rank)
  }

  book(
    id: string,
    rank: number,
    prompt: string[],
    nowMs: number,
    prefill?: { tokens: number; durationMs?: number | undefined },
    lora?: string,
  ): void {
    this.track(rank, nowMs)
    this.expireRank(rank, nowMs, 30_000)
    this.holds.push({ id, rank, prompt, outputs: [], startedAtMs: nowMs, lora })
    if (!prefill || prefill.tokens === 0) return
    const state = this.ranks.get(rank)!
    if (state.prefills.length === 0) state.anchoredAtMs = nowMs
    state.prefills.push({ id, tokens: prefill.tokens, durationMs: prefill.durationMs })
  }

  mark(id: string, nowMs: number): void {
    const hold = this.holds.find((it) => it.id === id)!
    this.#dropPrefill(this.ranks.get(hold.rank)!, id, nowMs)
  }

  output(id: string, fraction?: number): void {
    const hold = this.holds.find((it) => it.id === id)!
    hold.outputs.push(`output ${this.#outputs++}`)
    if (fraction === undefined) return
    for (const hash of [...hold.prompt, ...hold.outputs])
      if (this.#references(hold.rank, hash) === 1) this.ranks.get(hold.rank)!.fractions.set(hash, fraction)
  }

  free(id: string, nowMs: number): void {
    const hold = this.holds.find((it) => it.id === id)
    if (!hold) return
    const state = this.ranks.get(hold.rank)!
    this.#dropPrefill(state, id, nowMs)
    this.holds = this.holds.filter((it) => it !== hold)
    for (const hash of [...hold.prompt, ...hold.outputs])
      if (this.#references(hold.rank, hash) === 0) state.fractions.delete(hash)
  }

  expire(nowMs: number): void {
    for (const rank of this.ranks.keys()) this.expireRank(rank, nowMs, 30_000)
  }

  expireRank(rank: number, nowMs: number, pauseMs: number): void {
    const state = this.ranks.get(rank)!
    if (nowMs - state.checkedAtMs < pauseMs) return
    state.checkedAtMs = nowMs
    for (const it of this.holds.filter((hold) => hold.rank === rank && nowMs - hold.startedAtMs > 300_000))
      this.free(it.id, nowMs)
  }

  activeBlocks(rank: number): number {
    const unique = this.#unique(rank)
    const fractions = this.ranks.get(rank)?.fractions ?? new Map<string, number>()
    let sum = 0
    for (const fraction of fractions.values()) sum += fraction
    return Math.round(unique.size - fractions.size + sum)
  }

  activeTokens(rank: number, nowMs: number): number {
    const state = this.ranks.get(rank)
    const oldest = state?.prefills[0]
    if (!state || !oldest) return 0
    const sum = state.prefills.reduce((total, it) => total + it.tokens, 0)
    const elapsedMs = Math.max(0, nowMs - state.anchoredAtMs)
    if (oldest.durationMs === undefined) return sum
    if (oldest.durationMs === 0) return sum - oldest.tokens
    if (this.decay === 'full' && state.prefills.every((it) => it.durationMs !== undefined))
      return Math.max(0, sum - Math.floor((oldest.tokens * elapsedMs) / oldest.durationMs))
    const share = Math.min(1, Math.max(0, 1 - elapsedMs / oldest.durationMs))
    return sum - oldest.tokens + Math.ceil(oldest.tokens * share)
  }

  activeRequests(rank: number): number {
    return this.holds.filter((it) => it.rank === rank).length
  }

  depth(rank: number, query: string[]): number {
    const prompts = new Set(this.holds.filter((it) => it.rank === rank).flatMap((it) => it.prompt))
    const miss = query.findIndex((hash) => !prompts.has(hash))
    return miss < 0 ? query.length : miss
  }

  loraCounts(): Map<string, number> {
    const counts = new Map<string, number>()
    for (const { lora } of this.holds) if (lora !== undefined) counts.set(lora, (counts.get(lora) ?? 0) + 1)
    return counts
  }

  #unique(rank: number): Set<string> {
    return new Set(this.holds.filter((it) => it.rank === rank).flatMap((it) => [...it.prompt, ...it.outputs]))
  }

  #references(rank: number, hash: string): number {
    return this.holds.filter((it) => it.rank === rank && (it.prompt.includes(hash) || it.outputs.includes(hash))).length
  }

  #dropPrefill(state: NaiveRank, id: string, nowMs: number): void {
    const at = state.prefills.findIndex((it) => it.id === id)
    if (at < 0) return
    const [gone] = state.prefills.splice(at, 1)
    if (at === 0) state.anchoredAtMs = nowMs
    else if (this.decay === 'full' && gone!.durationMs !== undefined)
      state.anchoredAtMs = Math.max(state.anchoredAtMs, Math.min(state.anchoredAtMs + gone!.durationMs, nowMs))
  }
}

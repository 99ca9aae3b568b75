/** When a decision is made and by which lot: the two things that a pure core is told. */
export interface Moment {
  /** Monotonic. One decision sees one instant. */
  readonly nowMs: number
  /** Uniform in [0, 1). One lot per placed request: it breaks ties and samples under temperature. */
  readonly draw: () => number
}

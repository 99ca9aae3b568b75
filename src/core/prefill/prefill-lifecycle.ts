/**
 * May this model serve, and does it prefill remotely? The lifecycle of disaggregated prefill, one per model and namespace.
 * Follows lib/llm/src/kv_router/prefill_router/activation.rs at v1.2.0.
 *
 *   pending ──activated──► active ◄──reactivate── unavailable
 *      │                      └──────deactivate───────▲
 *      └── a failed activation stays pending and is tried again
 *
 * Deactivation and activation are two facts, not one state: a router that lost its prefill workers before it ever
 * activated is both not activated and deactivated, and coming back does not activate it.
 */

export interface PrefillLifecycleOptions {
  /** Remote prefill or nothing: without prefill workers the model does not serve. */
  readonly enforceDisagg: boolean
  /** A disabled lifecycle never activates: every request is served by one worker alone. */
  readonly isDisabled?: boolean
}

export type PrefillRoute =
  /** Prefill on a worker of its own, then decode. */
  | { readonly kind: 'remote' }
  /** One worker does both. */
  | { readonly kind: 'aggregated'; readonly reason: 'disabled' | 'not-activated' | 'deactivated' }
  /** Strict disaggregation without a prefill worker. */
  | { readonly kind: 'refused'; readonly reason: 'not-activated' | 'deactivated' }

export class PrefillLifecycle {
  readonly enforceDisagg: boolean
  readonly #isDisabled: boolean
  #isActivated = false
  #isDeactivated = false
  #failedActivations = 0

  constructor(options: PrefillLifecycleOptions) {
    this.enforceDisagg = options.enforceDisagg
    this.#isDisabled = options.isDisabled ?? false
  }

  get isActivated(): boolean {
    return this.#isActivated
  }

  get isDeactivated(): boolean {
    return this.#isDeactivated
  }

  /** Activations that failed and were, or will be, tried again. */
  get failedActivations(): number {
    return this.#failedActivations
  }

  /** The inner router stands. Once is enough; a disabled lifecycle stays as it is. */
  activated(): void {
    if (!this.#isDisabled) this.#isActivated = true
  }

  activationFailed(): void {
    this.#failedActivations++
  }

  /** The last prefill worker left. Safe to repeat. */
  deactivate(): void {
    this.#isDeactivated = true
  }

  /** Prefill workers are back; whether the inner router was ever built is another matter. */
  reactivate(): void {
    this.#isDeactivated = false
  }

  /** False: the model is hidden from listings and answers 503. */
  canServeRequests(): boolean {
    return !this.enforceDisagg || (this.#isActivated && !this.#isDeactivated)
  }

  /** What to do with a request that arrives now. */
  route(): PrefillRoute {
    if (this.#isActivated && !this.#isDeactivated) return { kind: 'remote' }
    const reason = this.#isDeactivated ? 'deactivated' : 'not-activated'
    if (this.enforceDisagg) return { kind: 'refused', reason }
    return { kind: 'aggregated', reason: this.#isDisabled ? 'disabled' : reason }
  }
}

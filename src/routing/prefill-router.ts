/**
 * The prefill side of a disaggregated model: built when its first worker appears, kept when they leave, used again when
 * they return. Follows lib/llm/src/kv_router/prefill_router/activation.rs at v1.2.0, and mends two things there: an
 * activation that fails is tried again every second instead of only logged, and workers that return under another
 * identity get an inner router of their own instead of being waited for in vain.
 */
import { PrefillLifecycle } from '../core/prefill/index.js'
import type { PrefillRoute } from '../core/prefill/index.js'
import type { RouterConfig, RouterConfigOverride } from '../core/protocol/index.js'

export interface PrefillRouterOptions<Endpoint, Inner> {
  readonly enforceDisagg: boolean
  /** Two endpoints of one identity share an inner router. */
  readonly identityOf: (endpoint: Endpoint) => string
  /** Must be running before the inner router is built: bootstrap addresses come from it. */
  readonly watchConfigs: (endpoint: Endpoint, signal: AbortSignal) => Promise<void>
  /** A KV router of worker type `prefill`, or a plain one in the front's own mode. No load monitor sits on either. */
  readonly buildInner: (endpoint: Endpoint, signal: AbortSignal) => Promise<Inner>
  /** Tells the decode side's monitor about the prefill client, so that its gauges end with its workers. */
  readonly registerWithMonitor?: ((inner: Inner) => void) | undefined
  readonly closeInner?: ((inner: Inner) => Promise<void>) | undefined
  /** One more try failed; the next follows. */
  readonly onActivationFailed?: (() => void) | undefined
  readonly warn: (fields: Record<string, unknown>, sentence: string) => void
  /** Waits; resolves early when the signal fires. */
  readonly pause: (ms: number, signal: AbortSignal) => Promise<void>
}

export type InnerRoute<Inner> =
  | { readonly kind: 'remote'; readonly inner: Inner }
  | Exclude<PrefillRoute, { kind: 'remote' }>

const retryMs = 1_000

export class PrefillRouter<Endpoint, Inner> {
  readonly #options: PrefillRouterOptions<Endpoint, Inner>
  readonly #lifecycle: PrefillLifecycle
  readonly #stop = new AbortController()
  /** Grows whenever workers leave: tells whether they left while a router was built for them. */
  #departures = 0
  #built: { readonly identity: string; readonly inner: Inner } | undefined
  #activating: { readonly identity: string; readonly done: Promise<void>; readonly stop: AbortController } | undefined

  constructor(options: PrefillRouterOptions<Endpoint, Inner>, isDisabled = false) {
    this.#options = options
    this.#lifecycle = new PrefillLifecycle({ enforceDisagg: options.enforceDisagg, isDisabled })
    if (isDisabled) this.#stop.abort()
  }

  /** Never activates: every request passes through to one worker, or fails where disaggregation is enforced. */
  static disabled<Endpoint, Inner>(options: PrefillRouterOptions<Endpoint, Inner>): PrefillRouter<Endpoint, Inner> {
    return new PrefillRouter(options, true)
  }

  get failedActivations(): number {
    return this.#lifecycle.failedActivations
  }

  get isActivated(): boolean {
    return this.#lifecycle.isActivated
  }

  get isDeactivated(): boolean {
    return this.#lifecycle.isDeactivated
  }

  canServeRequests(): boolean {
    return this.#lifecycle.canServeRequests()
  }

  /** What to do with a request that arrives now. */
  route(): InnerRoute<Inner> {
    const route = this.#lifecycle.route()
    if (route.kind !== 'remote') return route
    return { kind: 'remote', inner: this.#built!.inner }
  }

  /** The first prefill worker appeared. Settles when the inner router stands, or the router is closed. Once per identity. */
  activate(endpoint: Endpoint): Promise<void> {
    const identity = this.#options.identityOf(endpoint)
    if (this.#stop.signal.aborted) return Promise.resolve()
    if (this.#built?.identity === identity) {
      this.#activating?.stop.abort() // whoever it was for has left again
      this.#activating = undefined
      return Promise.resolve()
    }
    if (this.#activating?.identity === identity) return this.#activating.done
    this.#activating?.stop.abort()
    const stop = new AbortController()
    const onClose = (): void => stop.abort()
    this.#stop.signal.addEventListener('abort', onClose, { once: true })
    const done = this.#tryUntilBuilt(endpoint, identity, stop.signal).finally(() => {
      this.#stop.signal.removeEventListener('abort', onClose)
      if (this.#activating?.stop === stop) this.#activating = undefined
    })
    this.#activating = { identity, done, stop }
    return done
  }

  /** The last prefill worker left; the inner router is kept for its return. */
  deactivate(): void {
    this.#departures++
    this.#lifecycle.deactivate()
  }

  /** Prefill workers are back. The same identity is used at once; another one is built first. */
  async reactivate(endpoint: Endpoint): Promise<void> {
    const departures = this.#departures
    if (this.#built && this.#built.identity !== this.#options.identityOf(endpoint)) await this.activate(endpoint)
    else void this.activate(endpoint)
    if (this.#stop.signal.aborted || this.#departures !== departures) return
    this.#lifecycle.reactivate()
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#activating?.done
    const built = this.#built
    this.#built = undefined
    this.#lifecycle.deactivate()
    if (built) await this.#options.closeInner?.(built.inner)
  }

  async #closeOld(inner: Inner): Promise<void> {
    try {
      await this.#options.closeInner?.(inner)
    } catch (error) {
      this.#options.warn({ error: String(error) }, 'the old prefill router could not be closed')
    }
  }

  async #tryUntilBuilt(endpoint: Endpoint, identity: string, signal: AbortSignal): Promise<void> {
    const { watchConfigs, buildInner, registerWithMonitor, closeInner, warn, pause } = this.#options
    while (!signal.aborted) {
      try {
        await watchConfigs(endpoint, signal)
        const inner = await buildInner(endpoint, signal)
        if (signal.aborted) {
          await closeInner?.(inner)
          return
        }
        try {
          registerWithMonitor?.(inner)
        } catch (error) {
          await this.#closeOld(inner)
          throw error
        }
        const before = this.#built
        this.#built = { identity, inner }
        this.#lifecycle.activated()
        if (before) await this.#closeOld(before.inner)
        return
      } catch (error) {
        if (signal.aborted) return
        this.#lifecycle.activationFailed()
        this.#options.onActivationFailed?.()
        warn(
          { endpoint: identity, error: String(error), retry_ms: retryMs },
          'prefill could not be activated, trying again',
        )
      }
      await pause(retryMs, signal)
    }
  }
}

/**
 * The prefill router's config: what decodes is no business of it. Output tracking goes with block tracking; kept on, the
 * clone would break the rule that it needs block tracking, and upstream's activation fails on just that.
 */
export function prefillRouterConfig(config: RouterConfig): RouterConfig {
  return { ...config, routerTrackActiveBlocks: false, routerTrackOutputBlocks: false }
}

/**
 * Decode after a remote prefill: the prompt's blocks arrive by transfer, so neither its cache nor its prefill counts. With
 * conditional disaggregation the cache does count, since the prompt may be prefilled where it decodes.
 */
export function decodeOverride(
  override: RouterConfigOverride | undefined,
  isConditional = false,
): RouterConfigOverride {
  return {
    ...override,
    assumeKvReuse: false,
    trackPrefillTokens: false,
    ...(isConditional ? {} : { overlapScoreCredit: 0 }),
  }
}

/**
 * Where a decode side and a prefill side of one model and namespace meet, in whichever order they appear. Follows the
 * activation channels of lib/llm/src/discovery/model_manager.rs at v1.2.0.
 *
 * Decode first: its callback waits for the endpoint. Prefill first: the endpoint is kept for the decode side.
 */

/** Called once with the prefill endpoint, at once if it is known already. */
export type OnEndpoint<Endpoint> = (endpoint: Endpoint) => void

type Meeting<Endpoint> =
  | { readonly kind: 'decode-waits'; readonly onEndpoint: OnEndpoint<Endpoint> }
  | { readonly kind: 'prefill-waits'; readonly endpoint: Endpoint }
  | { readonly kind: 'met' }

export class PrefillRendezvous<Endpoint> {
  readonly #meetings = new Map<string, Meeting<Endpoint>>()

  get size(): number {
    return this.#meetings.size
  }

  /** False: a decode side of this model and namespace is registered already; the second one gets nothing. */
  registerDecode(model: string, namespace: string, onEndpoint: OnEndpoint<Endpoint>): boolean {
    const key = keyOf(model, namespace)
    const meeting = this.#meetings.get(key)
    if (meeting && meeting.kind !== 'prefill-waits') return false
    if (!meeting) this.#meetings.set(key, { kind: 'decode-waits', onEndpoint })
    else {
      this.#meetings.set(key, { kind: 'met' })
      onEndpoint(meeting.endpoint)
    }
    return true
  }

  /** True when a decode side was waiting and has been told. Later prefill workers of the same pair change nothing here. */
  registerPrefill(model: string, namespace: string, endpoint: Endpoint): boolean {
    const key = keyOf(model, namespace)
    const meeting = this.#meetings.get(key)
    if (!meeting || meeting.kind === 'prefill-waits') {
      this.#meetings.set(key, { kind: 'prefill-waits', endpoint })
      return false
    }
    if (meeting.kind === 'met') return false
    this.#meetings.set(key, { kind: 'met' })
    meeting.onEndpoint(endpoint)
    return true
  }

  /** The decode side is gone: a new one may register, and meets the prefill side anew. */
  removeDecode(model: string, namespace: string): void {
    const key = keyOf(model, namespace)
    if (this.#meetings.get(key)?.kind !== 'prefill-waits') this.#meetings.delete(key)
  }

  /** The prefill side left before anybody came for it. */
  removePrefill(model: string, namespace: string): void {
    const key = keyOf(model, namespace)
    if (this.#meetings.get(key)?.kind === 'prefill-waits') this.#meetings.delete(key)
  }
}

/** Neither part can contain the separator unescaped, so two pairs never share a key. */
function keyOf(model: string, namespace: string): string {
  return `${encodeURIComponent(model)}:${encodeURIComponent(namespace)}`
}

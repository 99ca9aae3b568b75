/**
 * A signal, or how to get one. Node 20 takes 8 us and a hidden class for each new `AbortController`, about a fifth of a decision:
 * whoever has none yet gives a function, which is called only when the request has to wait. Until then it is not given up.
 */
export type WaitSignal = AbortSignal | (() => AbortSignal)

export function signalOf(given: WaitSignal | undefined): AbortSignal | undefined {
  return typeof given === 'function' ? given() : given
}

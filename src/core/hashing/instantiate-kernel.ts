/**
 * Brings a generated WASM module to life, synchronously. Answers undefined where it cannot run: no WebAssembly, no SIMD,
 * or code generation forbidden. Callers then take their TypeScript twin.
 */

/** The little that we use; the standard typings come with a browser's or a newer Node's. */
interface WasmApi {
  readonly Module: new (bytes: Uint8Array) => object
  readonly Instance: new (module: object, imports?: object) => { readonly exports: Record<string, unknown> }
}

/** Compiled once, instantiated often: an index of several shards has an instance for each. */
const modules = new Map<string, object>()

/** `Exports` is what the kernel's source promises; nothing checks it at run time but its tests. */
export function instantiateKernel<Exports>(base64: string): Exports | undefined {
  const api = (globalThis as { readonly WebAssembly?: WasmApi }).WebAssembly
  if (api === undefined) return undefined
  try {
    let module = modules.get(base64)
    if (!module) {
      module = new api.Module(Uint8Array.from(atob(base64), (char) => char.charCodeAt(0)))
      modules.set(base64, module)
    }
    return new api.Instance(module, {}).exports as Exports
  } catch {
    return undefined
  }
}

/** Names optional platform packages that a lock file mentions but does not list. Pure. */

interface LockedPackage {
  readonly version?: string
  readonly license?: string
  readonly dev?: boolean
  readonly optionalDependencies?: Readonly<Record<string, string>>
}

export interface LockFile {
  readonly packages: Readonly<Record<string, LockedPackage>>
}

const systems = ['android', 'darwin', 'freebsd', 'linux', 'netbsd', 'openbsd', 'openharmony', 'sunos', 'aix', 'win32']
const processors = ['arm64', 'arm', 'x64', 'ia32', 'ppc64', 's390x', 'riscv64', 'loong64', 'mips64el', 'wasm32']

export function completeLock(lock: LockFile): LockFile {
  const packages: Record<string, LockedPackage> = { ...lock.packages }
  for (const [place, parent] of Object.entries(lock.packages)) {
    for (const [name, range] of Object.entries(parent.optionalDependencies ?? {})) {
      if (packages[`${place}/node_modules/${name}`] || packages[`node_modules/${name}`]) continue
      packages[`node_modules/${name}`] = platformEntry(name, range, parent)
    }
  }
  const sorted = Object.entries(packages).sort(([a], [b]) => a.localeCompare(b, 'en'))
  return { ...lock, packages: Object.fromEntries(sorted) }
}

/** Platform packages carry their platform in their name: `binding-linux-x64-musl`. */
function platformEntry(name: string, range: string, parent: LockedPackage): LockedPackage & Record<string, unknown> {
  const words = name.split('/').at(-1)!.split(/[-_]/)
  const system = systems.find((it) => words.includes(it))
  const processor = processors.find((it) => words.includes(it))
  const library = words.some((word) => word.startsWith('musl'))
    ? 'musl'
    : words.some((word) => word.startsWith('gnu'))
      ? 'glibc'
      : undefined
  return {
    version: range.replace(/^[\^~]/, ''),
    ...(processor ? { cpu: [processor] } : {}),
    ...(parent.dev ? { dev: true } : {}),
    ...(library && system === 'linux' ? { libc: [library] } : {}),
    license: parent.license ?? 'UNKNOWN',
    optional: true,
    ...(system ? { os: [system] } : {}),
  }
}

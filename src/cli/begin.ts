/**
 * How the command begins. The rest of it is some hundred files that Node opens at once; where so many may not be open it must still be
 * possible to say so, so this file imports nothing that lies in a file.
 */
import { setFlagsFromString } from 'node:v8'

export interface Commands {
  runCommand(): Promise<void>
}

/** Rejects with whatever else is wrong with the files. */
export async function begin(load: () => Promise<Commands>, command = process.argv[2]): Promise<void> {
  let commands: Commands
  if (command === 'serve') compileAtOnce()
  try {
    commands = await load()
  } catch (error) {
    const { code } = error as { readonly code?: string }
    if (code !== 'EMFILE' && code !== 'ENFILE') throw error
    console.error(
      `warmroute: too few files may be open at once here (${code}): raise the limit, for instance with \`ulimit -n 65536\`; each request needs two.`,
    )
    process.exitCode = 1
    return
  }
  await commands.runCommand()
}

/**
 * Functions are compiled when they are loaded, not when they are first called: the first request of a process held the loop for up to 12 ms,
 * most of it the compiler's (docs/decisions/0279-code-is-compiled-before-it-serves.md).
 */
export function compileAtOnce(): void {
  setFlagsFromString('--no-lazy')
}

/**
 * How the command begins. The rest of it is some hundred files that Node opens at once; where so many may not be open it must still be
 * possible to say so, so this file imports nothing.
 */
export interface Commands {
  runCommand(): Promise<void>
}

/** Rejects with whatever else is wrong with the files. */
export async function begin(load: () => Promise<Commands>): Promise<void> {
  let commands: Commands
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

/** One file per command; this one lists them and ends with the words and the status of a failure. */
import { Command } from 'commander'
import { checkCommand } from './check.js'
import { configCommand } from './config.js'
import { demoCommand } from './demo.js'
import { failureOf } from './failure.js'
import { profileCommand } from './profile.js'
import { outliveReaders } from './readers.js'
import { replayCommand } from './replay.js'
import { serveCommand } from './serve.js'
import { simCommand } from './sim.js'
import { ownVersion } from './version.js'

/** Never rejects: a failure is said, and becomes the status of the process. */
export async function runCommand(): Promise<void> {
  const program = new Command('warmroute')
    .description('Sends every LLM request to the worker whose KV cache is already warm for it.')
    .version(ownVersion())
    .showHelpAfterError()
    .addCommand(serveCommand())
    .addCommand(checkCommand())
    .addCommand(demoCommand())
    .addCommand(configCommand())
    .addCommand(simCommand())
    .addCommand(replayCommand())
    .addCommand(profileCommand())
  outliveReaders(process.stdout, process.stderr)
  for (const command of [program, ...program.commands]) command.exitOverride()
  try {
    await program.parseAsync()
  } catch (error) {
    const { words, status } = failureOf(error)
    if (words !== '') console.error(words)
    process.exitCode = status
  }
}

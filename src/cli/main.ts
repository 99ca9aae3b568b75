#!/usr/bin/env node
/** `warmroute`: one file per command; this one only lists them. */
import { Command } from 'commander'
import { replayCommand } from './replay.js'
import { simCommand } from './sim.js'

const program = new Command('warmroute')
  .description('Sends every LLM request to the worker whose KV cache is already warm for it.')
  .showHelpAfterError()
  .addCommand(simCommand())
  .addCommand(replayCommand())

await program.parseAsync()

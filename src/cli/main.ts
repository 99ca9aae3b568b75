#!/usr/bin/env node
/** `warmroute`. Imports nothing else at once, see `begin.ts`. */
import { begin } from './begin.js'

await begin(() => import('./commands.js'))

/**
 * `npm run lock`: makes `package-lock.json` from `package.json` in an empty folder, and names the optional platform packages that
 * the registry at hand does not carry. A mirror of one platform leaves the others out of the lock file, and `npm ci` then
 * refuses it as out of step; named without an address they are skipped where they do not fit and fetched where they do.
 */
import { spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readFileSync } from './files.js'
import type { LockFile } from './complete-lock.js'
import { completeLock } from './complete-lock.js'

const folder = mkdtempSync(join(tmpdir(), 'warmroute-lock-'))
try {
  for (const file of ['package.json', '.npmrc', 'package-lock.json'])
    if (existsSync(file)) copyFileSync(file, join(folder, file))
  const npm = spawnSync('npm', ['install', '--package-lock-only', '--ignore-scripts'], {
    cwd: folder,
    encoding: 'utf8',
  })
  if (npm.status !== 0) throw new Error(npm.stderr)
  const lock = JSON.parse(readFileSync(join(folder, 'package-lock.json'))) as LockFile
  writeFileSync('package-lock.json', `${JSON.stringify(completeLock(lock), null, 2)}\n`)
} finally {
  rmSync(folder, { recursive: true, force: true })
}

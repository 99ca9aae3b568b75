/** Writes `docs/reference/config.md`, or with `--check` fails when it is not what the declarations say. */
import { writeFileSync } from 'node:fs'
import { groups, referencePage } from '../src/config/index.js'
import { readFileSync } from './files.js'

const path = 'docs/reference/config.md'
const page = referencePage(Object.values(groups))
if (!process.argv.includes('--check')) writeFileSync(path, page)
else if (readFileSync(path) !== page) {
  console.log(`${path} is not what src/config declares: run npm run docs:config`)
  process.exit(1)
}

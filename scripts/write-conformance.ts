/** `npm run docs:conformance`: brings the list of parts in `docs/reference/conformance.md` up to date. */
import { writeFileSync } from 'node:fs'
import { readFileSync } from './files.js'
import { conformancePage, conformanceParts } from './conformance-files.js'
import { withParts } from './judge-conformance.js'

writeFileSync(conformancePage, withParts(readFileSync(conformancePage), conformanceParts()))

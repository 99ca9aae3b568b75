/** Fails when a document and the code it describes have drifted apart. */
import { existsSync, readdirSync } from 'node:fs'
import { readSurface } from './api-surface.js'
import { globSync, readFileSync } from './files.js'
import { entrySources, judgeSurface } from './judge-api.js'
import { conformanceFolder, conformancePage, conformanceParts } from './conformance-files.js'
import { judgeConformance, withParts } from './judge-conformance.js'
import { judgeErrorTable, judgeLinks, judgeRoomReadme, packedFiles } from './judge-docs.js'
import { floors } from './rooms.js'

const complaints: string[] = []

for (const room of floors.flat()) {
  const folder = `src/${room}`
  if (!existsSync(folder)) continue
  const files = globSync(folder, /\.ts$/).map((path) => path.slice(folder.length + 1))
  const readme = `${folder}/README.md`
  if (existsSync(readme)) complaints.push(...judgeRoomReadme(readme, readFileSync(readme), files))
  else complaints.push(`${readme} is missing`)
}

complaints.push(
  ...judgeErrorTable(readFileSync('src/core/protocol/errors.ts'), readFileSync('docs/reference/errors.md')),
)

const here = ['docs', 'examples'].flatMap((folder) => globSync(folder, /./))
const named = readdirSync('.')
const packed = packedFiles(readFileSync('package.json'), [...here, ...named])
for (const page of packed.filter((file) => file.endsWith('.md')))
  complaints.push(...judgeLinks(page, readFileSync(page), packed))

for (const { name, source } of entrySources(readFileSync('package.json')))
  complaints.push(...judgeSurface(name, readSurface(source, readFileSync, '.ts')))

const parts = conformanceParts()
const readIfThere = (path: string) => (existsSync(path) ? readFileSync(path) : undefined)
for (const [file, text] of parts)
  complaints.push(...judgeConformance(`${conformanceFolder}/${file}`, text, readIfThere))
if (withParts(readFileSync(conformancePage), parts) !== readFileSync(conformancePage))
  complaints.push(`${conformancePage}: the list of parts is out of date, run npm run docs:conformance`)

for (const complaint of complaints) console.log(complaint)
process.exit(complaints.length === 0 ? 0 : 1)

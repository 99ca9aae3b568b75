/** Fails when an import points up, reaches past a room's front door, or brings the outside world into `core/`. */
import { readFileSync, globSync } from './files.js'
import { judgeImports } from './judge-imports.js'

const complaints = globSync('src', /\.ts$/).flatMap((path) =>
  judgeImports(path.slice('src/'.length), readFileSync(path)),
)
for (const complaint of complaints) console.log(complaint)
process.exit(complaints.length === 0 ? 0 : 1)

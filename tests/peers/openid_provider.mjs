// A provider of OpenID Connect: the package oidc-provider with its own pages of login and consent.
// node openid_provider.mjs FOLDER-WITH-NODE_MODULES PORT CLIENT-SECRET REDIRECT-URI PEOPLE-AS-JSON-FILE
// The file is read at each login: {"anna": {"groups": ["support"], "email": "…"}}.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder, port, secret, redirect, people] = process.argv.slice(2);
const { default: Provider } = await import(pathToFileURL(`${folder}/node_modules/oidc-provider/lib/index.js`));
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{ client_id: "mnemoscope", client_secret: secret, redirect_uris: [redirect] }],
  claims: {
    openid: ["sub"],
    email: ["email", "email_verified"],
    profile: ["preferred_username", "name", "groups", "realm_access", "memories"],
  },
  pkce: { required: () => true },
  cookies: { keys: ["of no worth"] },
  findAccount: (_context, id) => ({
    accountId: id,
    claims: () => ({ sub: id, preferred_username: id, ...JSON.parse(readFileSync(people, "utf8"))[id] }),
  }),
});
provider.listen(Number(port), "127.0.0.1");

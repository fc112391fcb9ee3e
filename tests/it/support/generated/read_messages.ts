// Reads messages by the client that @hey-api/openapi-ts made: BASE KEY.
import { client } from "./client/client.gen";
import { getThread, listRecentMessages } from "./client/sdk.gen";

declare const process: { argv: string[]; exitCode: number };

async function main(): Promise<void> {
  const [baseUrl, key] = process.argv.slice(2);
  client.setConfig({ baseUrl, auth: key });
  const messages = await listRecentMessages({ query: { limit: 5 }, throwOnError: true });
  for (const message of messages.data) {
    const path = { roomId: message.roomId, uuid: message.uuid };
    // This generator's client adds the key to a query only where there is one.
    await getThread({ path, query: {}, throwOnError: true });
    console.log(message.uuid, message.timestamp, message.fromUser, message.aiLeadRating);
  }
  client.setConfig({ baseUrl, auth: undefined });
  const refused = await listRecentMessages();
  console.log(refused.error?.code);
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});

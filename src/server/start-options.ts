/** Owns the options of a start, each checked, before anything is touched. Knows not what is done with them. */
import { largestBodyBytes } from '../index.js';
import { readTlsFiles, type TlsFiles } from './tls-files.js';
import type { Setting, Settings } from './settings.js';
import { readStorage, type NamedStorage } from './storage.js';
import type { PluginSetting } from './plugins.js';
import { readHost, readUrl, readWholeNumber, readWord } from './values.js';

/** How much the log says. */
export type LogChoice = 'silent' | 'info' | 'requests';

/** What a start needs to know. */
export interface StartOptions {
  readonly host: string;
  readonly port: number;
  readonly storage: NamedStorage;
  readonly apiKeys: readonly Setting[];
  readonly keysFile: Setting | undefined;
  /** Each once; those that another option turns on are among them. */
  readonly plugins: readonly PluginSetting[];
  readonly corsOrigins: readonly Setting[];
  readonly maxBodyBytes: number;
  /** What goes to `createPetstore` only where it is set. */
  readonly baseUrls: { readonly baseUrl?: string; readonly stagingBaseUrl?: string };
  readonly tls: TlsFiles | undefined;
  readonly log: LogChoice;
  readonly isDev: boolean;
}

/** Rejects with a Refusal for the first bad one. */
export async function readStartOptions(settings: Settings): Promise<StartOptions> {
  const baseUrl = settings.find('baseUrl');
  const stagingBaseUrl = settings.find('stagingBaseUrl');
  return {
    host: readHost(settings.get('host')),
    port: readWholeNumber(settings.get('port'), 0, 65_535),
    storage: readStorage(settings.get('storage')),
    apiKeys: settings.list('apiKeys'),
    keysFile: settings.find('keysFile'),
    plugins: pluginsOf(settings),
    corsOrigins: settings.list('corsOrigin'),
    maxBodyBytes: readWholeNumber(settings.get('maxBodyBytes'), 1, largestBodyBytes),
    baseUrls: {
      ...(baseUrl && { baseUrl: readUrl(baseUrl) }),
      ...(stagingBaseUrl && { stagingBaseUrl: readUrl(stagingBaseUrl) }),
    },
    tls: await readTlsFiles(settings.find('tlsCert'), settings.find('tlsKey')),
    log: readWord(settings.get('log'), ['silent', 'info', 'requests']),
    isDev: settings.has('dev'),
  };
}

function pluginsOf(settings: Settings): readonly PluginSetting[] {
  const turnedOn = settings.list('corsOrigin').length > 0 ? [{ text: 'cors', from: '--plugin' }] : [];
  const niceToHave = settings.has('dev') ? [{ text: 'docs', from: '--dev', isOptional: true }] : [];
  // Of two of a name the later counts: whoever asks for one by name wants to hear that it is missing.
  return [...new Map([...niceToHave, ...turnedOn, ...settings.list('plugin')].map((setting) => [setting.text, setting])).values()];
}

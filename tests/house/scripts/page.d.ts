// What the scripts of the pages find there: the elements, the libraries that base.html loads before them, and what
// they lend each other. A selector names what a template holds, so it finds HTML, and events come from elements.

/** An element of a page, whichever it is: links, buttons, fields and dialogs have what the others lack. */
type PageElement = HTMLElement &
  Pick<HTMLInputElement, "value" | "checked" | "disabled" | "name" | "type" | "form" | "max" | "files" | "select" | "setSelectionRange"> &
  Pick<HTMLFormElement, "elements" | "action" | "requestSubmit" | "reset"> &
  Pick<HTMLDialogElement, "open" | "showModal" | "close"> &
  Pick<HTMLAnchorElement, "href"> & {
    /** Where the map has drawn a topic, in pixels. */
    mapOf?(topic: number): [number, number];
  };

interface ParentNode {
  querySelector(selectors: string): PageElement | null;
  querySelectorAll(selectors: string): NodeListOf<PageElement>;
}
interface Document {
  getElementById(id: string): PageElement | null;
}
interface Element {
  closest(selectors: string): PageElement | null;
  blur(): void;
}
interface EventTarget {
  closest(selectors: string): PageElement | null;
  matches(selectors: string): boolean;
  querySelector(selectors: string): PageElement | null;
  blur(): void;
  readonly form: HTMLFormElement | null;
  id: string;
  name: string;
  type: string;
  value: string;
  checked: boolean;
}
interface HTMLFormControlsCollection {
  [name: string]: any;
}

/** What an event of a run's page tells: the step that is shown, and whether new ones are followed. */
interface Shown {
  event: PageElement | null;
  live: boolean;
  following: boolean;
}
interface DocumentEventMap {
  "htmx:responseError": CustomEvent<{ xhr: XMLHttpRequest }>;
  "htmx:afterOnLoad": CustomEvent<{ failed?: boolean }>;
  "htmx:configRequest": CustomEvent<{
    elt: PageElement;
    path: string;
    verb: string;
    parameters: Record<string, string>;
    formData: Iterable<[string, string]>;
  }>;
  "htmx:afterSettle": Event;
  "run:shown": CustomEvent<Shown>;
  "run:spoken": CustomEvent<{ event: PageElement; share: number }>;
  "run:typed": CustomEvent<{ event: PageElement }>;
}

declare const htmx: {
  ajax(verb: string, path: string, where: { target: string | Element; swap: string; values?: object }): Promise<void>;
  trigger(element: Element, event: string): void;
  swap(target: Element, html: string, how: { swapStyle: string }): void;
};
declare namespace tinykeys {
  type Keys = Record<string, (event: KeyboardEvent) => void>;
  function tinykeys(target: Window, keys: Keys, options?: { ignore?: (event: KeyboardEvent) => boolean }): () => void;
}
declare var echarts: any;

/** Of seen.js: presses the button that commits, once its outcome was seen. */
declare var commitSeen: (commit: PageElement | null, outcome: Element) => void;
/** Of survivor.js: chooses the next summary, or with -1 the one before. */
declare var nextSurvivor: (step?: number) => void;

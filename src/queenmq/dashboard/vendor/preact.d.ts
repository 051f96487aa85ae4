export type VNode = { type: unknown; props: unknown; key: unknown };
export type Child = VNode | string | number | boolean | null | undefined | Child[];
export function h(type: unknown, props: unknown, ...children: unknown[]): VNode;
export function render(node: unknown, parent: Element): void;
export const Fragment: unknown;
export class Component<P = object, S = object> {
  constructor(props?: P);
  props: P;
  state: S;
  setState(state: Partial<S>): void;
  render(props: P, state: S): unknown;
}
export interface Context<T> { Provider: unknown; readonly value?: T }
export function createContext<T>(value: T): Context<T>;
